// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/resp"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

var record = flag.Bool("record", false, "record the replies again")

// recordFile is the record of Redis 6.2.
const recordFile = "recorded/redis62.txt"

// talk is a connection whose replies are recorded.
type talk struct {
	net.Conn
	replies *resp.Reader
	came    *bytes.Buffer
}

// The record is true: with REDIS_SERVER=/path/of/a/redis-server-6.2 the server replies the same, except for the IDs of
// clients and for times.
func TestTheRecordOfRedis62(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := New(t, Options{})
	info := must.Get(server.Client().Info(t.Context(), "server").Result())(g)
	if !strings.Contains(info, "redis_version:6.2.") {
		t.Skip("the server is not a Redis 6.2; REDIS_SERVER can name one")
	}
	talks := map[string]*talk{}
	var lines bytes.Buffer
	for line := range strings.Lines(redis62) {
		parsed := parseRecord(line)
		if len(parsed) == 0 {
			lines.WriteString(line)
			continue
		}
		each := parsed[0]
		if talks[each.conn] == nil {
			talks[each.conn] = newTalk(t, server.Addr())
		}
		reply := talks[each.conn].exchange(t, each.command)
		fmt.Fprintf(&lines, "%s\t%q\n", strings.TrimSpace(each.conn+" "+each.command), reply)
		varies := strings.HasPrefix(each.command, "hello 3") || strings.HasPrefix(each.command, "xpending stream workers 1-1")
		if !*record && !varies {
			g.Expect(reply).To(Equal(each.reply), line)
		}
	}
	if *record {
		g.Expect(os.WriteFile(recordFile, lines.Bytes(), 0o600)).To(Succeed())
	}
}

func newTalk(t *testing.T, addr string) *talk {
	t.Helper()
	g := NewWithT(t)
	conn := must.Get(net.Dial("tcp", addr))(g)
	t.Cleanup(func() { g.Expect(conn.Close()).To(Succeed()) })
	g.Expect(conn.SetDeadline(time.Now().Add(commandTimeout))).To(Succeed())
	came := &bytes.Buffer{}
	return &talk{Conn: conn, came: came, replies: resp.NewReader(io.TeeReader(conn, came))}
}

// exchange sends a command, if there is one, and returns what comes then, as it came.
func (c *talk) exchange(t *testing.T, command string) string {
	t.Helper()
	g := NewWithT(t)
	if command != "" {
		g.Expect(c.Write(resp.AppendCommand(nil, strings.Fields(command)...))).Error().NotTo(HaveOccurred())
	}
	g.Expect(c.replies.Next()).Error().NotTo(HaveOccurred())
	defer c.came.Reset()
	return c.came.String()
}
