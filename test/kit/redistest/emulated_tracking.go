// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// track is the command CLIENT TRACKING, with no more than ON. Over RESP2 nothing is told, as by Redis.
func (e *emulation) track(peer *server.Peer, args []string) {
	if len(args) != 1 || !strings.EqualFold(args[0], "ON") {
		peer.WriteError("ERR the emulated Redis knows CLIENT TRACKING ON only")
		return
	}
	if peer.Resp3 && e.tracked[peer] == nil {
		e.tracked[peer] = map[string]struct{}{}
		peer.OnDisconnect(func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			delete(e.tracked, peer)
		})
	}
	peer.WriteOK()
}

// remember notes that a connection has read the length of a list.
func (e *emulation) remember(peer *server.Peer, name string, args []string) {
	if keys := e.tracked[peer]; keys != nil && name == "LLEN" && len(args) == 1 {
		keys[args[0]] = struct{}{}
	}
}

// invalidate tells those who have read the key that it has changed, once.
func (e *emulation) invalidate(key string) {
	for peer, keys := range e.tracked {
		if _, reads := keys[key]; !reads {
			continue
		}
		delete(keys, key)
		peer.Block(func(w *server.Writer) {
			w.WritePushLen(2)
			w.WriteBulk("invalidate")
			w.WriteLen(1)
			w.WriteBulk(key)
			w.Flush()
		})
	}
}
