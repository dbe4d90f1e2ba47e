// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed recorded/redis62.txt
var redis62 string

// exchange is a line of a record: what came on a connection after a command, or, without one, unasked.
type exchange struct{ conn, command, reply string }

// Redis62 returns what Redis 6.2 replied when it was recorded, by the connection and the command, such as "resp3 llen
// emails". A connection without a command stands for what came unasked. The record says which connection is what.
func Redis62() map[string]string {
	replies := map[string]string{}
	for _, each := range parseRecord(redis62) {
		replies[strings.TrimSpace(each.conn+" "+each.command)] = each.reply
	}
	return replies
}

// parseRecord returns the exchanges of a record in their order.
func parseRecord(record string) (all []exchange) {
	for line := range strings.Lines(record) {
		if line == "\n" || strings.HasPrefix(line, "#") {
			continue
		}
		var each exchange
		head, reply, _ := strings.Cut(strings.TrimSpace(line), "\t")
		each.conn, each.command, _ = strings.Cut(head, " ")
		if reply != "" {
			var err error
			if each.reply, err = strconv.Unquote(reply); err != nil {
				panic(fmt.Sprintf("the record has %q: %v", line, err)) // It is part of the program.
			}
		}
		all = append(all, each)
	}
	return all
}
