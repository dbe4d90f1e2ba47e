// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// longestID is the length of the longest ID of a node or sentinel that is kept. Redis has IDs of 40 characters.
const longestID = 64

// mostMoves is how many slots a node may be moving at the same time. If they are more, the others are found only where
// they are moved from.
const mostMoves = 1024

// nodes is what a node of a Cluster reports.
type nodes struct {
	// self is the ID of the node; empty if it does not report that.
	self string
	// masters are the IDs of the masters with slots, each once, and ranges are their slots.
	masters []string
	ranges  []slotRange
	// epochs has the epoch of each node with slots by its ID: of two nodes that claim a slot, the one with the higher
	// epoch is right.
	epochs map[string]uint64
	// addresses has the address of each node by its ID: of those with slots, and of those that slots are moved to.
	addresses map[string]string
	// moves are the slots that the node itself is moving to others.
	moves []move
}

// same reports whether two nodes report the same.
func (n *nodes) same(as *nodes) bool {
	return n.self == as.self && slices.Equal(n.masters, as.masters) && slices.Equal(n.ranges, as.ranges) &&
		slices.Equal(n.moves, as.moves) && maps.Equal(n.epochs, as.epochs) && maps.Equal(n.addresses, as.addresses)
}

// slotRange are the slots from first to last, of one master. A node may have very many ranges.
type slotRange struct {
	first, last uint16
	master      uint16 // its index
}

// move is a slot that is being moved to another node.
type move struct {
	slot uint16
	to   string // the ID of the node
}

// parseNodes parses the replies to CLUSTER SLOTS and CLUSTER NODES. polledAt is the address of the node that sent them:
// a node that does not know its own host name is at that host. The second reply may be an error, because some services
// have only the first command.
func parseNodes(inSlots, inNodes any, polledAt string) (*nodes, error) {
	is := &nodes{epochs: map[string]uint64{}, addresses: map[string]string{}}
	if text, ok := inNodes.(string); ok {
		for line := range strings.Lines(text) {
			is.parseLine(strings.Fields(line), polledAt)
		}
	}
	if err := is.parseSlots(inSlots, polledAt); err != nil {
		return nil, err
	}
	is.trim()
	for _, id := range is.masters {
		if is.self == "" && is.addresses[id] == polledAt {
			is.self = id
		}
	}
	return is, nil
}

// parseSlots parses the reply to CLUSTER SLOTS. Of a Cluster with more than mostMasters, it leaves out the slots of the
// others.
func (n *nodes) parseSlots(reply any, polledAt string) error {
	listed, ok := reply.([]any)
	if !ok {
		return resp.ErrMalformed
	}
	index, covered := map[string]uint16{}, 0
	for _, each := range listed {
		r, id, err := n.parseRange(each, polledAt)
		if errors.Is(err, errNoAddress) {
			continue // Nobody has its slots.
		}
		if err != nil {
			return err
		}
		if covered += int(r.last-r.first) + 1; covered > slots { // Some overlap.
			return resp.ErrMalformed
		}
		at, known := index[id]
		if !known {
			if len(n.masters) == mostMasters {
				continue
			}
			at = uint16(len(n.masters))
			index[id], n.masters = at, append(n.masters, id)
		}
		r.master = at
		n.ranges = append(n.ranges, r)
	}
	return nil
}

// trim leaves out the nodes that have no slots and get none. A hostile node may name very many.
func (n *nodes) trim() {
	epochs, addresses := map[string]uint64{}, map[string]string{}
	for _, id := range n.masters {
		epochs[id], addresses[id] = n.epochs[id], n.addresses[id]
	}
	for _, m := range n.moves {
		addresses[m.to] = n.addresses[m.to]
	}
	n.epochs, n.addresses = epochs, addresses
}

// parseRange parses a range of CLUSTER SLOTS: first, last, the master, and its replicas. It returns the ID of the
// master. A node is its preferred address, its port, and, from Redis 4 on, its ID.
func (n *nodes) parseRange(reply any, polledAt string) (is slotRange, id string, err error) {
	const least, leastOfNode = 3, 2
	parts, _ := reply.([]any)
	if len(parts) < least {
		return slotRange{}, "", resp.ErrMalformed
	}
	first, isFirst := parts[0].(int64)
	last, isLast := parts[1].(int64)
	master, _ := parts[2].([]any)
	if !isFirst || !isLast || first < 0 || last < first || last >= slots || len(master) < leastOfNode {
		return slotRange{}, "", resp.ErrMalformed
	}
	id, err = n.parseMaster(master, polledAt)
	return slotRange{first: uint16(first), last: uint16(last)}, id, err
}

// parseMaster parses the master of a range, keeps its address, and returns its ID. A node without an ID is known by its
// address.
func (n *nodes) parseMaster(master []any, polledAt string) (id string, err error) {
	if id, err = idOf(master); err != nil {
		return "", err
	}
	host, port := master[0], master[1]
	if port == int64(0) {
		return "", errNoAddress
	}
	if host == unannounced && n.addresses[id] != "" {
		return id, nil // CLUSTER NODES has the IP address.
	}
	address, err := addressOf(host, port, polledAt)
	if err != nil {
		return "", err
	}
	id = cmp.Or(id, address)
	n.addresses[id] = address
	return id, nil
}

// idOf returns the ID of a node in CLUSTER SLOTS, if there is one.
func idOf(node []any) (id string, err error) {
	const at = 2
	if len(node) > at {
		id, _ = node[at].(string)
	}
	if len(id) > longestID {
		return "", resp.ErrMalformed
	}
	return id, nil
}

// unannounced is the host of a node that is to be known by a name, but has announced none.
const unannounced = "?"

// errNoAddress is that of a node whose address the others have lost, or that has no port for such clients.
var errNoAddress = errors.New("the node has no address")

// addressOf returns the address of a node. A host that is not known is that of the node that sent the reply.
func addressOf(host, port any, polledAt string) (string, error) {
	if name, _ := host.(string); name == "" {
		own, _, err := net.SplitHostPort(polledAt)
		if err != nil {
			return "", resp.ErrMalformed
		}
		host = own
	}
	return joined(host, port)
}

// parseLine parses a line of CLUSTER NODES:
//
//	<id> <ip:port@bus-port[,hostname]> <flags> <master> <ping> <pong> <epoch> <link> <slot>...
//
// A slot that is being moved is [<slot>->-<id>], in the line of the node itself. Lines that are not like this
// are left out: CLUSTER SLOTS has what matters most.
func (n *nodes) parseLine(fields []string, polledAt string) {
	const address, flags, epoch, firstSlot = 1, 2, 6, 8
	if len(fields) < firstSlot || len(fields[0]) > longestID {
		return
	}
	id := fields[0]
	if number, err := strconv.ParseUint(fields[epoch], 10, 64); err == nil {
		n.epochs[id] = number
	}
	named, _, _ := strings.Cut(fields[address], ",")
	named, _, _ = strings.Cut(named, "@")
	if at := strings.LastIndexByte(named, ':'); at >= 0 {
		if parsed, err := addressOf(named[:at], named[at+1:], polledAt); err == nil {
			n.addresses[id] = parsed
		}
	}
	if !slices.Contains(strings.Split(fields[flags], ","), "myself") {
		return
	}
	n.self = strings.Clone(id)
	for _, each := range fields[firstSlot:] {
		if is, isMove := parseMove(each); isMove && len(n.moves) < mostMoves {
			n.moves = append(n.moves, is)
		}
	}
}

// parseMove parses [<slot>->-<id>]. Other slots have other forms.
func parseMove(field string) (is move, isMove bool) {
	inner, bracketed := strings.CutPrefix(strings.TrimSuffix(field, "]"), "[")
	number, to, outgoing := strings.Cut(inner, "->-")
	slot, err := strconv.ParseUint(number, 10, 16)
	if !bracketed || !outgoing || err != nil || slot >= slots || len(to) > longestID {
		return move{}, false
	}
	return move{uint16(slot), strings.Clone(to)}, true
}

// claim is what a master of a slot is known by: its index, its epoch, and whether it says so itself.
type claim struct {
	index uint16
	epoch uint64
	own   bool
}

// mergeNodes returns what follows from what several nodes report. Of two masters of a slot, the one with the higher
// epoch is right. What a node reports about itself is newer than what others report about it.
func mergeNodes(of auth.Endpoint, reported []*nodes) *view {
	v := &view{owners: make([]uint16, slots), importing: map[uint16]auth.Endpoint{}}
	epochs := make([]uint64, slots)
	index := v.index(of, reported)
	for _, each := range reported {
		claims := make([]claim, len(each.masters))
		for i, id := range each.masters {
			claims[i] = claim{index[each.addresses[id]], each.epochs[id], id == each.self}
		}
		for _, r := range each.ranges {
			by := claims[r.master]
			for slot := int(r.first); by.index != 0 && slot <= int(r.last); slot++ {
				if v.owners[slot] == 0 || by.epoch > epochs[slot] || by.epoch == epochs[slot] && by.own {
					v.owners[slot], epochs[slot] = by.index, by.epoch
				}
			}
		}
	}
	v.addMoves(of, reported)
	return v
}

// addMoves adds the moves of slots, to no more servers than there may be masters. Only the owner of a slot moves it:
// what a former owner says is left over from a move that was interrupted.
func (v *view) addMoves(of auth.Endpoint, reported []*nodes) {
	servers := map[string]auth.Endpoint{}
	for _, each := range reported {
		for _, m := range each.moves {
			owner, address := v.owners[m.slot], each.addresses[m.to]
			if owner == 0 || v.masters[owner-1].Address != each.addresses[each.self] {
				continue
			}
			if _, known := servers[address]; !known && address != "" && len(servers) < mostMasters {
				servers[address] = of.ServerAt(address)
			}
			if to, known := servers[address]; known {
				v.importing[m.slot] = to
			}
		}
	}
}

// leaveOut takes the slots from servers that are not what the others take them for. Nobody has these slots then.
func (v *view) leaveOut(ofOtherClusters map[string]bool) {
	for slot, owner := range v.owners {
		if owner > 0 && ofOtherClusters[v.masters[owner-1].Address] {
			v.owners[slot] = 0
		}
	}
	maps.DeleteFunc(v.importing, func(_ uint16, to auth.Endpoint) bool { return ofOtherClusters[to.Address] })
}

// index adds the masters to the view, and returns the index of each address, plus 1.
func (v *view) index(of auth.Endpoint, reported []*nodes) map[string]uint16 {
	found := map[string]bool{}
	for _, each := range reported {
		for _, id := range each.masters {
			found[each.addresses[id]] = true
		}
	}
	index := map[string]uint16{}
	for _, address := range slices.Sorted(maps.Keys(found)) {
		if len(v.masters) == mostMasters {
			break
		}
		v.masters = append(v.masters, of.ServerAt(address))
		index[address] = uint16(len(v.masters))
	}
	return index
}
