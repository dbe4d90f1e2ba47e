// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
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

// length runs LLEN, and notes that the connection has read the key. Over RESP3, a connection with subscriptions may run it,
// which miniredis does not allow.
func (e *emulation) length(peer *server.Peer, argv []string) {
	var reply strings.Builder
	stand := server.NewPeer(bufio.NewWriter(&reply))
	stand.Resp3 = true
	e.redis.Server().Dispatch(stand, argv)
	stand.Flush()
	peer.WriteRaw(reply.String())
	if keys := e.tracked[peer]; keys != nil && len(argv) == len([]string{"LLEN", "key"}) {
		keys[argv[1]] = struct{}{}
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
