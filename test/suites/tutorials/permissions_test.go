// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// documentedRules are the rules of the user that a page creates for its workers.
func documentedRules(t *testing.T, page string) []string {
	t.Helper()
	command := regexp.MustCompile(`(?m)^ACL SETUSER worker on >PASSWORD (.+ \+eval .+)$`).FindStringSubmatch(readPage(t, page))
	if command == nil {
		t.Fatalf("%s creates no user for its workers", page)
	}
	return strings.Fields(command[1])
}

// restrict lets those who connect without a user name do what the rules permit.
func (w *worker) restrict(rules ...string) {
	w.t.Helper()
	command := []any{"ACL", "SETUSER", "default"}
	for _, rule := range rules {
		command = append(command, rule)
	}
	w.Expect(w.redis.Client().Do(w.t.Context(), command...).Err()).To(Succeed())
}

func TestDocumentedPermissionsOfTheWorkersAreEnough(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(w *worker) {
		w.push("0", "no number", "600")
		w.restrict(documentedRules(t, reliableWorker)...)
		w.Expect(w.start("a").code()).To(Equal(succeeded))
		w.Expect(w.start("b").code()).To(Equal(messageFailed))
		w.start("c").at("600").crash()
		w.Expect(w.start("c").at("600").terminate().code()).To(Equal(terminated))
		w.start("d").at("600")
	})
}

// The control of the one before.
func TestEachDocumentedPermissionOfTheWorkersIsNeeded(t *testing.T) {
	t.Parallel()
	rules := documentedRules(t, reliableWorker)
	for i, rule := range rules {
		if !strings.HasPrefix(rule, "+") {
			continue
		}
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			w := newWorker(t, languages["go"].command(t))
			switch rule {
			case "+llen": // The worker asks for it where there is no message.
			case "+rpush": // of a message that fails
				w.push("no number")
			default:
				w.push("0")
			}
			w.restrict(slices.Delete(slices.Clone(rules), i, i+1)...)
			w.Expect(w.start("a").code()).NotTo(BeElementOf(succeeded, messageFailed))
		})
	}
}
