// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

const eventsSetting = "notify-keyspace-events"

const (
	// allClasses are the classes that the letter A stands for.
	allClasses = "g$lshzxetd"
	// otherFlags are the letters besides, in the order in which Redis prints them.
	otherFlags = "nKEm"
)

var errEventFlags = errors.New("unknown letter in " + eventsSetting)

// eventFlags are the letters of notify-keyspace-events, each once, A as those it stands for.
type eventFlags string

func parseEventFlags(setting string) (eventFlags, error) {
	setting = strings.ReplaceAll(setting, "A", allClasses)
	var flags eventFlags
	for _, known := range allClasses + otherFlags {
		if strings.ContainsRune(setting, known) {
			flags += eventFlags(known)
		}
	}
	if strings.Trim(setting, allClasses+otherFlags) != "" {
		return "", errEventFlags
	}
	return flags, nil
}

func (f eventFlags) has(letter byte) bool { return strings.IndexByte(string(f), letter) >= 0 }

// String returns the flags as Redis prints them: next to A it leaves n out.
func (f eventFlags) String() string {
	others, ok := strings.CutPrefix(string(f), allClasses)
	if !ok {
		return string(f)
	}
	return "A" + strings.ReplaceAll(others, "n", "")
}

// config is the command CONFIG. The lock is held.
func (e *emulation) config(peer *server.Peer, _ string, args []string) {
	switch {
	case len(args) > 1 && strings.EqualFold(args[0], "GET"):
		e.configGet(peer, args[1:])
	case len(args) > 2 && strings.EqualFold(args[0], "SET"):
		e.configSet(peer, args[1:])
	default:
		peer.WriteError("ERR unknown subcommand or wrong number of arguments for 'CONFIG'")
	}
}

func (e *emulation) configGet(peer *server.Peer, patterns []string) {
	for _, pattern := range patterns {
		if ok, _ := path.Match(strings.ToLower(pattern), eventsSetting); ok {
			peer.WriteMapLen(1)
			peer.WriteBulk(eventsSetting)
			peer.WriteBulk(e.events.String())
			return
		}
	}
	peer.WriteMapLen(0)
}

func (e *emulation) configSet(peer *server.Peer, pairs []string) {
	if len(pairs) != 2 || !strings.EqualFold(pairs[0], eventsSetting) {
		peer.WriteError(fmt.Sprintf("ERR Unknown option or number of arguments for CONFIG SET - '%s'", pairs[0]))
		return
	}
	flags, err := parseEventFlags(pairs[1])
	if err != nil {
		peer.WriteError(fmt.Sprintf("ERR CONFIG SET failed (possibly related to argument '%s') - %s", pairs[0], err))
		return
	}
	e.events = flags
	peer.WriteOK()
}
