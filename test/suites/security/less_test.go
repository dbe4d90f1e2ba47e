// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// documentedUser is the user whom the documents make.
const documentedUser = "scaledjob"

// documented reads a how-to guide.
func documented(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/how-to/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documentedPermissions is the command of docs/how-to/redis-permissions.md that makes a user with the fewest rights.
func documentedPermissions(t *testing.T) []string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^ *ACL SETUSER scaledjob on .*$`).FindString(documented(t, "redis-permissions.md"))
	if !strings.Contains(line, "PASSWORD") {
		t.Fatal("docs/how-to/redis-permissions.md makes no user")
	}
	return strings.Fields(line)
}

// follow makes the documented user by the command that the documents give, and returns the way to it.
func (s *scaledJob) follow(server *server, command []string) []sjtest.Change {
	s.t.Helper()
	s.Redis = server.Client()
	password := knownSecrets.password()
	s.putPassword(password)
	args := make([]any, len(command))
	for i, word := range command {
		args[i] = strings.Replace(word, "PASSWORD", password, 1)
	}
	server.do(args...)
	return []sjtest.Change{at(server.Addr()), signedIn(documentedUser)}
}

// replaced is the command with one of its words replaced by others.
func replaced(t *testing.T, command []string, word string, by ...string) (changed []string) {
	t.Helper()
	found := false
	for _, is := range command {
		if is == word {
			changed, found = append(changed, by...), true
		} else {
			changed = append(changed, is)
		}
	}
	if !found {
		t.Fatalf("%q is not in %q", word, command)
	}
	return changed
}

func TestTheDocumentedPermissionsAreEnough(t *testing.T) {
	t.Parallel()
	for version, c := range map[string]struct {
		keys string
		args []string
	}{
		"since Redis 7":  {"%R~jobs:*", nil},
		"before Redis 7": {"~jobs:*", []string{"--acl-pubsub-default", "allchannels"}},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.create(s.follow(newClosedServer(t, c.args...), replaced(t, documentedPermissions(t), "%R~jobs:*", c.keys))...)
			s.expectNoticed()
		})
	}
}

func TestTheDocumentedPermissionsAreEnoughInAnotherDatabase(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	row := regexp.MustCompile("(?m)^ *\\| database ([0-9]+) \\| `([^`]+)` \\|$").FindStringSubmatch(documented(t, "redis-permissions.md"))
	s.Expect(row).NotTo(BeNil(), "docs/how-to/redis-permissions.md has no permissions for another database")
	database := must.Get(strconv.Atoi(row[1]))(s)
	server := newClosedServer(t)
	spec := s.follow(server, append(documentedPermissions(t), strings.Fields(row[2])...))
	s.Redis = server.in(database)
	s.create(with(spec, func(spec *scaledjobv1.ScaledJobSpec) { spec.Redis.Database = int32(database) })...)
	s.expectNoticed()
}

func TestTheDocumentedCommandsOfTypesAreEnough(t *testing.T) {
	t.Parallel()
	for kind := range sjtest.QueueKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.kind = kind
			server := newClosedServer(t)
			spec := s.follow(server, replaced(t, documentedPermissions(t), "+llen", documentedCommands(t, kind)...))
			s.create(spec...)
			s.expectNoticed()
		})
	}
}

// For tracking alone, the document leaves out the channels and the commands that subscribe. Without the right to track,
// the queue is polled.
func TestTheDocumentedPermissionsAreEnoughForTracking(t *testing.T) {
	t.Parallel()
	for kind := range sjtest.QueueKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newScaledJob(t)
			s.kind = kind
			command := documentedPermissions(t)
			for _, word := range []string{"&__keyspace@0__:jobs:*", "+subscribe", "+unsubscribe"} {
				command = replaced(t, command, word)
			}
			s.create(with(s.follow(newClosedServer(t), replaced(t, command, "+llen", trackedCommands(t, kind)...)), sjtest.Tracking)...)
			s.awaitJobs()
			s.expectTracked()
		})
	}
	t.Run("without the right to track", func(t *testing.T) {
		t.Parallel()
		s := newScaledJob(t)
		command := replaced(t, documentedPermissions(t), "+client|tracking")
		s.create(with(s.follow(newClosedServer(t), command), sjtest.Tracking, sjtest.Polling(1))...)
		s.awaitJobs()
		s.push(1)
		s.awaitJobs()
		s.awaitFalse(scaledjobv1.ConditionNotificationsActive, scaledjobv1.ReasonNotSubscribed, "+client|tracking")
		s.awaitMode(scaledjobv1.ModePolling)
	})
}

// trackedCommands are the rights that the documents name for the type while its keys are tracked: for a sorted set with
// a window also the command that reads its length.
func trackedCommands(t *testing.T, kind string) []string {
	t.Helper()
	rights := documentedCommands(t, kind)
	if strings.HasPrefix(kind, "SortedSet") && !slices.Contains(rights, "+zcard") {
		if !strings.Contains(documented(t, "redis-permissions.md"), "| sorted sets | `+zcard`;") {
			t.Fatal("docs/how-to/redis-permissions.md does not name +zcard")
		}
		rights = append(rights, "+zcard")
	}
	return rights
}

// documentedKinds are how the rows of the table in docs/how-to/queues.md begin that have the commands which reading
// takes.
var documentedKinds = map[string]string{
	"List": "`List`", "Set": "`Set`", "Hash": "`Hash`",
	"SortedSet": "`SortedSet`, `window: All`", "SortedSetDue": "`SortedSet`, `window: Due`", "SortedSetLive": "`SortedSet`, `window: Live`",
	"Stream": "`Stream`", "StreamWithGroup": "`Stream` with `consumerGroup`",
}

// documentedCommands are the rights that docs/how-to/queues.md names for the type.
func documentedCommands(t *testing.T, kind string) (rights []string) {
	t.Helper()
	for line := range strings.Lines(documented(t, "queues.md")) {
		if !strings.HasPrefix(line, "| "+documentedKinds[kind]+" |") {
			continue
		}
		for _, command := range regexp.MustCompile("`([A-Z ]+)`").FindAllStringSubmatch(strings.Split(line, "|")[3], -1) {
			rights = append(rights, "+"+strings.ReplaceAll(strings.ToLower(command[1]), " ", "|"))
		}
	}
	if len(rights) == 0 {
		t.Fatalf("docs/how-to/queues.md has no commands for %s", kind)
	}
	return rights
}

func TestCONFIGIsNotNeeded(t *testing.T) {
	t.Parallel()
	s := newScaledJob(t)
	s.create(s.on(newClosedServer(t, "--rename-command", "CONFIG", ""))...)
	s.expectNoticed()
}
