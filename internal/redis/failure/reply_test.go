// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package failure_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// Redis 6, 7.0 and 7.2 have different texts for the same error.
func TestWhatToGrant(t *testing.T) {
	t.Parallel()
	const key, channel = "%R~<key>", "&__keyspace@<db>__:<key>"
	for said, grant := range map[string]string{
		"this user has no permissions to run the 'llen' command":                           "+llen with ACL SETUSER.",
		"this user has no permissions to run the 'llen' command or its subcommand":         "+llen with ACL SETUSER.",
		"User jobs has no permissions to run the 'llen' command":                           "+llen with ACL SETUSER.",
		"User a 'b' command has no permissions to run the 'zcount' command":                "+zcount with ACL SETUSER.",
		"this user has no permissions to run the 'xinfo' command or its subcommand":        "+xinfo|groups with ACL SETUSER.",
		"User jobs has no permissions to run the 'xinfo|groups' command":                   "+xinfo|groups with ACL SETUSER.",
		"this user has no permissions to run the 'subscribe' command":                      "+subscribe with ACL SETUSER.",
		"User jobs has no permissions to run the 'select' command":                         "+select with ACL SETUSER.",
		"this user has no permissions to access one of the keys used as arguments":         key,
		"No permissions to access a key":                                                   key,
		"User jobs has no permissions to access the 'emails' key":                          key,
		"this user has no permissions to access one of the channels used as arguments":     channel,
		"No permissions to access a channel":                                               channel,
		"User jobs has no permissions to access the '__keyspace@0__:emails' channel":       channel,
		"User jobs has no permissions to run the 'flushall' command":                       "LLEN for a list",
		"User jobs has no permissions to run the 'llen' command, and this is a long story": "LLEN for a list",
		"' command": "LLEN for a list",
	} {
		classified := failure.Classify(reply("NOPERM " + said))
		g := NewWithT(t)
		g.Expect(classified.Reason).To(Equal(failure.ReasonPermissionDenied), said)
		g.Expect(classified.Message).To(ContainSubstring(grant), said)
	}
}

// FuzzClassify checks that a message depends only on the kind of the reply: every reply gets one of the messages of
// well-known replies, so no text of the server is in it.
func FuzzClassify(f *testing.F) {
	known := map[string]bool{failure.Classify(reply("")).Message: true}
	for seed := range strings.Lines(knownReplies) {
		seed = strings.TrimSuffix(seed, "\n")
		known[failure.Classify(reply(seed)).Message] = true
		f.Add(seed)
	}
	for command := range strings.FieldsSeq("ping select subscribe unsubscribe llen scard hlen zcard zcount zrange xlen xrange xpending xinfo") {
		known[failure.Classify(reply("NOPERM to run the '"+command+"' command")).Message] = true
	}
	known[failure.Classify(reply("NOPERM a channel")).Message] = true
	f.Fuzz(func(t *testing.T, text string) {
		classified := failure.Classify(reply(text))
		NewWithT(t).Expect(known).To(HaveKey(classified.Message))
	})
}

const knownReplies = `NOAUTH x
WRONGPASS x
ERR invalid password
ERR wrong number of arguments for 'auth' command
ERR AUTH x
ERR DB index is out of range
WRONGTYPE x
LOADING x
BUSY x
MASTERDOWN x
MOVED x
CLUSTERDOWN x
DENIED x
ERR max number of clients reached
ERR x
NOPERM x
NOPERM User 'llen' has no permissions to access the 'x' key
NOPERM User x has no permissions to run the 'x' command
`
