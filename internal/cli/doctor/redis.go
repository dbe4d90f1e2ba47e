// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor/redis"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// TargetOf returns what to look at for a ScaledJob, as the operator would read it. It has no passwords and certificates
// yet.
func TargetOf(sj *scaledjobv1.ScaledJob) *redis.Target {
	target := &redis.Target{Addresses: []string{sj.Spec.RedisAddress}}
	if at := sj.Spec.Redis; at != nil {
		target.Addresses, target.Database, target.Cluster = at.Addresses, int(at.Database), at.Mode == scaledjobv1.RedisCluster
		if at.Sentinel != nil {
			target.MasterName = at.Sentinel.MasterName
		}
	}
	queues := sj.Spec.AllQueues()
	for i := range queues {
		key := keyOf(&queues[i])
		key.Together = key.Together || len(queues) > 1
		target.Keys = append(target.Keys, key)
		if notifies(sj) {
			target.Channels = append(target.Channels, "__keyspace@"+strconv.Itoa(target.Database)+"__:"+key.Name)
		}
	}
	target.Tracking = sj.Spec.Notifications != scaledjobv1.NotificationsDisabled
	return target
}

// notifies reports whether the operator may subscribe.
func notifies(sj *scaledjobv1.ScaledJob) bool {
	return sj.Spec.Notifications == "" || sj.Spec.Notifications == scaledjobv1.NotificationsEnabled
}

// lengths are the commands that return how many messages a key has.
var lengths = map[scaledjobv1.QueueType]string{
	scaledjobv1.QueueList: "llen", scaledjobv1.QueueSet: "scard", scaledjobv1.QueueHash: "hlen", scaledjobv1.QueueSortedSet: "zcard",
	scaledjobv1.QueueStream: "xlen",
}

// keyOf returns the commands that the operator runs for a queue. None of them returns a message: the ranges are empty.
func keyOf(queue *scaledjobv1.Queue) redis.Key {
	name := queue.Name
	key := redis.Key{Name: name}
	add := func(grant string, args ...any) {
		key.Commands = append(key.Commands, redis.Command{Args: args, Grant: grant})
	}
	add("+"+lengths[queue.Type], lengths[queue.Type], name)
	switch {
	case queue.Type == scaledjobv1.QueueStream:
		add("+xrange", "xrange", name, "+", "-", "count", 1)
		if queue.Stream != nil {
			key.Together = true
			add("+xinfo|groups", "xinfo", "groups", name)
			add("+xpending", "xpending", name, queue.Stream.ConsumerGroup)
		}
	case queue.SortedSet != nil && queue.SortedSet.Window != scaledjobv1.WindowAll:
		add("+zcount", "zcount", name, "-inf", "+inf")
		if queue.SortedSet.Window == scaledjobv1.WindowDue {
			key.Together = true
			add("+zrange", "zrange", name, 1, 0)
		}
	}
	return key
}

// The conditions under which a check of Redis is made.
func hasTarget(f *Facts) bool { return f.Target != nil }

func isReached(f *Facts) bool {
	return f.Redis != nil && f.Redis.Server != nil && f.Redis.Server.Reached()
}

func hasSentinels(f *Facts) bool { return f.Redis != nil && len(f.Redis.Sentinels) > 0 }

func hasCluster(f *Facts) bool { return f.Redis != nil && f.Redis.Cluster != nil }

func hasScanned(f *Facts) bool { return isReached(f) && f.Target.Scan }

func hasProbed(f *Facts) bool { return isReached(f) && f.Redis.Probe != nil }

// section returns where the documentation says what to do about an error.
func section(err *failure.Error) string {
	return "docs/operations/troubleshooting.md#" + strings.ToLower(string(err.Reason)) + " says what to do."
}

func redisAnswers(f *Facts) []Finding {
	if f.RedisFault != nil {
		return []Finding{{Error, f.RedisFault.Message, section(f.RedisFault)}}
	}
	server := f.Redis.Server
	switch {
	case server == nil:
		return []Finding{{Unchecked, "No sentinel that can be reached from here knows the address of the master.", ""}}
	case server.Reached():
		return []Finding{{OK, fmt.Sprintf("Redis answers at %s%s.", server.Address, version(server)), ""}}
	case server.Failed != redis.Lookup && server.Failed != redis.Connect:
		message := fmt.Sprintf("%s: %s failed. %s%s", server.Address, server.Failed, server.Err.Message, described(server.Certificates))
		return []Finding{{Error, message, section(server.Err)}}
	case f.Target.Instead != "":
		return []Finding{{Error, server.Address + ": " + server.Err.Message, "Check --redis-address, and that the port is forwarded."}}
	}
	return []Finding{{
		Unchecked, fmt.Sprintf("%s can't be reached from here (%s). That is no fault: addresses may only work in the cluster.", server.Address, server.Failed),
		"Forward a port with kubectl port-forward, and name it with --redis-address=localhost:PORT.",
	}}
}

func version(server *redis.Server) string {
	if server.Version == "" {
		return ""
	}
	return " (version " + oneLine(server.Version) + ")"
}

// described says for which names a certificate is, and until when.
func described(chain []*x509.Certificate) string {
	if len(chain) == 0 {
		return ""
	}
	names := slices.Clone(chain[0].DNSNames)
	for _, ip := range chain[0].IPAddresses {
		names = append(names, ip.String())
	}
	return fmt.Sprintf(" It is for %s, and valid until %s.", oneLine(some(names)), chain[0].NotAfter.UTC().Format(time.RFC3339))
}

// expiring is how long before its end a certificate is reported, unless its whole life is so short that this would be
// more than a quarter of it: programs that renew certificates do so earlier.
const expiring = 14 * 24 * time.Hour

func redisTLS(f *Facts) []Finding {
	var found []Finding
	for _, certificate := range f.Redis.Server.Certificates {
		if certificate.NotAfter.Sub(f.Now) < min(expiring, certificate.NotAfter.Sub(certificate.NotBefore)/4) {
			found = append(found, Finding{
				Warning, fmt.Sprintf("A certificate of the server ends at %s.", certificate.NotAfter.UTC().Format(time.RFC3339)), "Renew it in time.",
			})
		}
	}
	if f.Target.Access.TLS != nil && f.Target.Access.TLS.InsecureSkipVerify {
		found = append(found, Finding{
			Warning, "spec.redis.tls.insecureSkipVerify is true, so that whoever is in the network path can learn the password.",
			"Set caSecretRef instead. A certificate that has signed itself is its own authority.",
		})
	}
	return found
}

func redisMode(f *Facts) []Finding {
	server := f.Redis.Server
	wanted := "standalone"
	if f.Target.Cluster {
		wanted = "cluster"
	}
	switch {
	case server.Mode == "":
		return []Finding{{Unchecked, "The server does not say what it is.", ""}}
	case server.Mode != wanted:
		return []Finding{{
			Error, fmt.Sprintf("The server is in mode %q, which is not that of spec.redis.mode.", oneLine(server.Mode)),
			"Correct spec.redis.mode: docs/operations/troubleshooting.md#wrongmode.",
		}}
	case server.Role != "master" && wanted == "standalone":
		return []Finding{{
			Warning, "The server is a replica: what it says is late, and after a failover it may be wrong.", "Name the master, or use mode: Sentinel.",
		}}
	}
	return nil
}

func redisKeys(f *Facts) []Finding {
	var found []Finding
	for i := range f.Redis.Keys {
		is := &f.Redis.Keys[i]
		switch {
		case is.Server != nil && !is.Server.Reached():
			found = append(found, Finding{Unchecked, fmt.Sprintf("The node with %q can't be reached from here: %s", is.Name, is.Server.Address), ""})
		case is.WrongType:
			found = append(found, Finding{
				Error, fmt.Sprintf("The key %q has another type than the spec says.", is.Name),
				"Correct the type in spec.queues, or name another key. redis-cli shows it with: TYPE " + strconv.Quote(is.Name),
			})
		case is.Refused != nil:
			found = append(found, Finding{Error, fmt.Sprintf("%q: %s", is.Name, is.Refused.Message), f.grant(is)})
		}
	}
	return found
}

// grant returns the command that gives the user what it lacks.
func (f *Facts) grant(is *redis.KeyState) string {
	user := f.Target.Access.Username
	if user == "" {
		user = "default"
	}
	lacks := strings.Join(is.Denied, " ")
	if strings.Contains(is.Refused.Message, "%R~") {
		lacks = "'%R~" + is.Name + "'"
	}
	return fmt.Sprintf("In redis-cli: ACL SETUSER %s %s", user, lacks)
}

// letters are the letters of notify-keyspace-events for the types of keys.
var letters = map[scaledjobv1.QueueType]string{
	scaledjobv1.QueueList: "l", scaledjobv1.QueueSet: "s", scaledjobv1.QueueHash: "h", scaledjobv1.QueueSortedSet: "z", scaledjobv1.QueueStream: "t",
}

// flagsFor returns the value of notify-keyspace-events for the types of the queues.
func flagsFor(queues []scaledjobv1.Queue) string {
	flags := "Kg"
	for i := range queues {
		if letter := letters[queues[i].Type]; !strings.Contains(flags, letter) {
			flags += letter
		}
	}
	return flags
}

// notifying reports whether the value of notify-keyspace-events has all of these flags.
func notifying(value, flags string) bool {
	for _, flag := range flags {
		if !strings.ContainsRune(value, flag) && (flag == 'K' || !strings.Contains(value, "A")) {
			return false
		}
	}
	return true
}

func redisChanges(f *Facts) []Finding {
	is, flags := f.Redis.Changes, flagsFor(f.ScaledJob.Spec.AllQueues())
	switch {
	case !f.Target.Tracking:
		return []Finding{{OK, "spec.notifications is Disabled: the operator polls the queue.", ""}}
	case is.Events != nil && notifying(*is.Events, flags) && len(f.Target.Channels) > 0 && is.Subscribed == nil:
		return []Finding{{OK, "Redis reports changes with keyspace notifications.", ""}}
	case f.Redis.Server.RESP3 && is.Tracked == nil:
		return []Finding{{OK, "Redis reports changes of the keys that the operator tracks.", ""}}
	case is.Events == nil && len(f.Target.Channels) > 0 && is.Subscribed == nil:
		return []Finding{{Unchecked, "The server does not support tracking, and the user may not read whether notifications are configured.", ""}}
	}
	return []Finding{{
		Warning, "Redis does not report changes, so the operator polls the queue.",
		fmt.Sprintf("Grant +client|tracking, or set notify-keyspace-events to %s and grant +subscribe with the channels: docs/how-to/redis-permissions.md.", flags),
	}}
}

func redisSimilar(f *Facts) []Finding {
	var found []Finding
	for _, is := range f.Redis.Keys {
		if len(is.Similar) > 0 {
			found = append(found, Finding{
				Warning, fmt.Sprintf("The key %q is empty, and there are keys with similar names: %q.", is.Name, is.Similar),
				"If the messages are in one of them, correct the name in the spec. Check also spec.redis.database.",
			})
		}
	}
	if err := f.Redis.ScanErr; err != nil {
		found = append(found, Finding{Unchecked, "The names of keys could not be read: " + err.Message, "Grant +scan for the time of this check."})
	}
	return found
}

func redisProbe(f *Facts) []Finding {
	switch is := f.Redis.Probe; {
	case is.Err != nil:
		return []Finding{{
			Unchecked, "No notification could be tried: " + is.Err.Message, "The probe needs +lpush, +expire and +del, and write access. The operator does not.",
		}}
	case !is.Arrived:
		return []Finding{{Warning, fmt.Sprintf("No notification came for a push to the scratch key %q.", is.Key), "docs/how-to/redis.md#notifications says what to set."}}
	}
	return nil
}

func redisSentinels(f *Facts) []Finding {
	var found []Finding
	var masters []string
	for i := range f.Redis.Sentinels {
		is := &f.Redis.Sentinels[i]
		finding, known := aboutSentinel(is, f.Target.MasterName)
		if finding.Message != "" {
			found = append(found, finding)
		}
		if known && !slices.Contains(masters, is.Master) {
			masters = append(masters, is.Master)
		}
	}
	if len(masters) > 1 {
		found = append(found, Finding{
			Warning, "The sentinels name different masters: " + oneLine(some(masters)) + ".", "During a failover that is normal for some seconds. Check again.",
		})
	}
	return found
}

// aboutSentinel returns what is wrong with a sentinel, and whether it knows a master.
func aboutSentinel(is *redis.Sentinel, name string) (found Finding, known bool) {
	switch {
	case is.Failed == redis.Lookup || is.Failed == redis.Connect:
		return Finding{Unchecked, fmt.Sprintf("The sentinel %s can't be reached from here (%s).", is.Address, is.Failed), ""}, false
	case !is.Reached():
		return Finding{Error, fmt.Sprintf("The sentinel %s: %s failed. %s", is.Address, is.Failed, is.Err.Message), section(is.Err)}, false
	case is.Mode != "" && is.Mode != "sentinel":
		return Finding{Error, is.Address + " is no sentinel.", "Name the sentinels in spec.redis.addresses, usually with port 26379."}, false
	case is.Master == "":
		return Finding{
			Error, fmt.Sprintf("The sentinel %s knows no master %q.", is.Address, name), "Correct spec.redis.sentinel.masterName: docs/operations/troubleshooting.md#masternotfound.",
		}, false
	case is.Down:
		return Finding{Error, fmt.Sprintf("The sentinel %s does not reach the master %s.", is.Address, oneLine(is.Master)), "Check the master, and the network between them."}, true
	case is.Quorum > is.Sentinels && is.Sentinels > 0:
		return Finding{
			Error, fmt.Sprintf("The sentinel %s knows %d sentinels, and %d have to agree, so that no failover is possible.", is.Address, is.Sentinels, is.Quorum),
			"Start more sentinels, or lower the quorum.",
		}, true
	}
	return Finding{}, true
}

// allSlots is the number of slots of a Redis Cluster.
const allSlots = 16384

func redisCluster(f *Facts) []Finding {
	is := f.Redis.Cluster
	if is.Err != nil {
		return []Finding{{Error, "The server does not say where the keys are: " + is.Err.Message, "Grant +cluster|slots +cluster|nodes +asking: docs/how-to/redis-permissions.md."}}
	}
	var found []Finding
	if is.Covered != nil && *is.Covered < allSlots {
		found = append(found, Finding{
			Error, fmt.Sprintf("Only %d of %d slots have a master.", *is.Covered, allSlots), "Repair the cluster: redis-cli --cluster fix.",
		})
	}
	var silent []string
	for i := range is.Nodes {
		node := &is.Nodes[i]
		switch {
		case isLoopback(node.Address) && !isLoopback(f.Redis.Server.Address):
			found = append(found, Finding{
				Error, "A node announces the address " + node.Address + ", which is that of everybody's own host.", "Set cluster-announce-ip, or cluster-announce-hostname, on the node.",
			})
		case node.Failed == redis.Lookup || node.Failed == redis.Connect:
			silent = append(silent, node.Address)
		case !node.Reached():
			found = append(found, Finding{Error, fmt.Sprintf("The node %s: %s failed. %s", node.Address, node.Failed, node.Err.Message), section(node.Err)})
		}
	}
	if len(silent) > 0 {
		found = append(found, Finding{Unchecked, "From here, these announced addresses can't be reached: " + some(silent) + ". The operator must reach them.", ""})
	}
	return found
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// onlyInCluster are checks that this program can't make where it runs.
func onlyInCluster(f *Facts) []string {
	all := []string{
		"whether the operator reaches Redis through its DNS and the network policies: the condition QueueConnected says so",
		"whether the nodes can pull the images and mount the volumes: the Pods of Jobs show it",
	}
	if f.Target != nil && !isReached(f) {
		all = append(all, "TLS, credentials, permissions, the types of the keys, and how Redis reports changes, because Redis did not answer here")
	}
	return all
}
