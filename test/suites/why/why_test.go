// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli"
	"miracle.dev/scaledjob-operator/internal/cli/doctor"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

// situation is one in which messages wait.
type situation struct {
	name string
	// modes are how the operator learns of messages, where that makes a difference. None means by notifications.
	modes []scaledjobv1.ScalingMode
	// restricted is whether the operator lacks permissions.
	restricted bool
	// bring brings the situation about. It creates the ScaledJob, and pushes.
	bring func(s *stage)
	// says is what a condition says then, and also are what others say at the same time.
	says claim
	also []claim
	// event happens exactly once.
	event event
	// cure ends the situation. Nil is for one that the operator ends itself.
	cure func(s *stage)
	// then is what the conditions say after that. None means that all is well. Each message has its Job then.
	then []claim
}

// claim is what a condition says. In words, NAMESPACE and ADDRESS stand for those of the stage.
type claim struct {
	kind   string
	status metav1.ConditionStatus
	reason string
	// words are in the message, and without is not.
	words   []string
	without string
}

// claimed is the claim that a condition has this status and reason, and these words in its message.
func claimed(kind string, status metav1.ConditionStatus, reason string, words ...string) claim {
	return claim{kind: kind, status: status, reason: reason, words: words}
}

// lacking is the claim with words that are not in the message.
func (c claim) lacking(words string) claim {
	c.without = words
	return c
}

// event is one about the ScaledJob. Its note has these words.
type event struct {
	kind, reason string
	words        []string
}

func warning(reason string, words ...string) event {
	return event{corev1.EventTypeWarning, reason, words}
}

const (
	yes = metav1.ConditionTrue
	no  = metav1.ConditionFalse
)

// well is what the conditions say when nothing is wrong.
var well = []claim{
	claimed(scaledjobv1.ConditionReady, yes, scaledjobv1.ReasonReconciled),
	claimed(scaledjobv1.ConditionQueueConnected, yes, scaledjobv1.ReasonConnected),
	claimed(scaledjobv1.ConditionTemplateValid, yes, scaledjobv1.ReasonAccepted),
	claimed(scaledjobv1.ConditionScalingLimited, no, scaledjobv1.ReasonNotLimited),
}

// wellAnd is what the conditions say when nothing is wrong, and more.
func wellAnd(more ...claim) []claim { return slices.Concat(well, more) }

// situations are all.
func situations() []situation {
	return slices.Concat(refused(), notRunning(), unread(), bySpec())
}

// representatives are the situations that make test brings about, for all of their parts.
var representatives = []string{
	"webhook-without-code", "quota", "webhook-hangs", "at-max-replicas", "max-replicas-0", "refused", "no-password",
	"no-permission-for-key", "no-such-database", "tls-unverified", "denied-network", "too-many-servers", "no-secret",
	"ca-is-no-certificate", "server-as-cluster",
}

// inEveryMode is the situation where it makes a difference how the operator learns of messages.
func (w situation) inEveryMode() situation {
	w.modes = everyMode
	return w
}

// withoutPermissions is the situation of an operator that lacks permissions.
func (w situation) withoutPermissions() situation {
	w.restricted = true
	return w
}

func TestWhy(t *testing.T) {
	t.Parallel()
	writeAnswers(t)
	for number, each := range situations() {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(representatives, each.name) {
				skip.UnderShort(t, "another situation of the part is brought about")
			}
			if len(each.modes) == 0 {
				each.play(t, scaledjobv1.ModeEvents, fmt.Sprintf("%02d", number+1))
			}
			for _, mode := range each.modes {
				t.Run(string(mode), func(t *testing.T) {
					t.Parallel()
					each.play(t, mode, fmt.Sprintf("%02d-%s", number+1, mode))
				})
			}
		})
	}
}

// play brings the situation about and cures it, and compares what the ScaledJob says with what it should say. The
// record has the title.
func (w situation) play(t *testing.T, mode scaledjobv1.ScalingMode, title string) {
	t.Helper()
	s := newStage(t, w.restricted, mode)
	w.bring(s)
	s.expect(append([]claim{w.says}, w.also...)...)
	s.expectExplained(w.says)
	if w.says.isFault() {
		s.Expect(s.examined()).To(ContainElement(ContainSubstring("("+w.says.reason+")")), "kubectl scaledjob doctor")
	}
	s.expectOnce(w.event)
	if w.says.isUnread() {
		s.Expect(s.jobs()).To(BeEmpty(), "Jobs for a depth that is not known")
	}
	s.expectKstatus()
	s.expectNoPassword()
	s.record(title)
	if w.cure != nil {
		w.cure(s)
	}
	if w.then == nil {
		w.then = well
	}
	s.expect(w.then...)
	if !slices.ContainsFunc(w.then, func(each claim) bool { return each.reason == w.says.reason }) {
		s.expectNotExplained(w.says)
	}
	if !slices.ContainsFunc(w.then, claim.isFault) {
		s.Eventually(s.examined).Should(BeEmpty(), "kubectl scaledjob doctor invents nothing")
	}
	s.expectJobs()
	s.expectOnce(w.event)
	s.expectKstatus()
	s.expectNoPassword()
}

// expect waits until the conditions say all that is claimed.
func (s *stage) expect(claims ...claim) {
	s.t.Helper()
	s.Eventually(func() []string { return s.missing(claims) }).Should(BeEmpty(), s.explain)
}

// expectExplained waits until kubectl scaledjob explain gives the reason and the words of a claim: the status may be
// written again meanwhile.
func (s *stage) expectExplained(of claim) {
	s.t.Helper()
	words := s.fillAll(of.words)
	if !of.usual() {
		words = append(words, "("+of.reason+")")
	}
	s.Eventually(s.explained).Should(containAll(words), s.explain)
}

// expectNotExplained waits until kubectl scaledjob explain does not give the reason of a claim any more.
func (s *stage) expectNotExplained(of claim) {
	s.t.Helper()
	if !of.usual() {
		s.Eventually(s.explained).ShouldNot(ContainSubstring("("+of.reason+")"), s.explain)
	}
}

// usual reports whether the reason is one that the condition has too when nothing is wrong.
func (c claim) usual() bool {
	return slices.ContainsFunc(well, func(each claim) bool { return each.kind == c.kind && each.reason == c.reason })
}

// isUnread reports whether the depth of the queue can't be read. A missing consumer group is created by a first worker.
func (c claim) isUnread() bool {
	return c.kind == scaledjobv1.ConditionQueueConnected && c.status == no && c.reason != scaledjobv1.ReasonConsumerGroupNotFound
}

// isFault reports whether something is wrong, which is neither a limit of the spec nor only slower.
func (c claim) isFault() bool {
	switch c.kind {
	case scaledjobv1.ConditionScalingLimited:
		own := []string{scaledjobv1.ReasonAtMaxReplicas, scaledjobv1.ReasonAtMaxPending, scaledjobv1.ReasonSuspended}
		return c.status == yes && !slices.Contains(own, c.reason)
	case scaledjobv1.ConditionNotificationsActive:
		return false
	}
	return c.status == no
}

// expectKstatus waits until the library by which tools wait for objects says the same as the conditions.
func (s *stage) expectKstatus() {
	s.t.Helper()
	s.Eventually(func(g Gomega) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(scaledjobv1.GroupVersion.WithKind("ScaledJob"))
		g.Expect(s.API.Get(s.t.Context(), s.Key(), object)).To(Succeed())
		computed := must.Get(kstatus.Compute(object))(g)
		conditions := s.Get().Status.Conditions
		expected := kstatus.CurrentStatus
		switch {
		case apimeta.IsStatusConditionTrue(conditions, scaledjobv1.ConditionStalled):
			expected = kstatus.FailedStatus
		case apimeta.IsStatusConditionTrue(conditions, scaledjobv1.ConditionReconciling):
			expected = kstatus.InProgressStatus
		}
		g.Expect(computed.Status).To(Equal(expected), computed.Message)
	}).Should(Succeed(), s.explain)
}

// expectNoPassword makes sure that neither the status nor an event has a password.
func (s *stage) expectNoPassword() {
	s.t.Helper()
	s.Expect(s.explain()).NotTo(Or(ContainSubstring(password), ContainSubstring(wrong)))
}

// examined is what kubectl scaledjob doctor finds in what the operator reports. The operator is no Deployment here, so
// that the other checks find something in any case.
func (s *stage) examined() (found []string) {
	out, errOut, _ := s.command("doctor", s.Name, "--output=json")
	s.Expect(errOut).To(BeEmpty())
	var is doctor.Report
	s.Expect(json.Unmarshal([]byte(out), &is)).To(Succeed())
	for _, check := range is.Checks {
		if check.ID != "conditions" {
			continue
		}
		for _, each := range check.Findings {
			if each.Level == doctor.Warning || each.Level == doctor.Error {
				found = append(found, each.Message)
			}
		}
	}
	return found
}

// command runs a command of kubectl scaledjob in the namespace.
func (s *stage) command(args ...string) (out, errOut string, code int) {
	var printed, failed bytes.Buffer
	code = cli.Run(s.t.Context(), cli.Options{
		Args: append([]string{"--kubeconfig=" + s.in.Cluster.Kubeconfig(), "--namespace=" + s.Namespace}, args...),
		In:   strings.NewReader(""), Out: &printed, ErrOut: &failed, Version: "test",
	})
	return printed.String(), failed.String(), code
}

// explained is why there are so many Jobs, and what would change it, as kubectl scaledjob explain says it.
func (s *stage) explained() string {
	out, errOut, code := s.command("explain", s.Name, "--output=json")
	s.Expect(code).To(BeZero(), errOut)
	var is explain.Explanation
	s.Expect(json.Unmarshal([]byte(out), &is)).To(Succeed())
	lines := slices.Concat([]string{is.Summary}, is.Why, is.Changes, is.Next)
	for _, each := range is.Jobs.Waiting {
		lines = append(lines, each.Reason+": "+each.Message)
	}
	return strings.Join(lines, "\n")
}

// missing is what conditions of the current spec do not say although it is claimed.
func (s *stage) missing(claims []claim) (all []string) {
	s.t.Helper()
	is := s.Get()
	for _, of := range claims {
		condition := apimeta.FindStatusCondition(is.Status.Conditions, of.kind)
		if condition == nil || condition.ObservedGeneration != is.Generation {
			all = append(all, of.kind)
			continue
		}
		all = append(all, of.differences(condition, s.fill)...)
	}
	return all
}

// differences is what a condition says otherwise than claimed. A message is one line, and no longer than a page.
func (c claim) differences(is *metav1.Condition, fill func(string) string) (all []string) {
	const longest = 4096
	if is.Status != c.status || is.Reason != c.reason {
		all = append(all, fmt.Sprintf("%s is not %s %s", c.kind, c.status, c.reason))
	}
	for _, words := range c.words {
		if !strings.Contains(is.Message, fill(words)) {
			all = append(all, fmt.Sprintf("the message of %s lacks %q", c.kind, fill(words)))
		}
	}
	if c.without != "" && strings.Contains(is.Message, fill(c.without)) {
		all = append(all, fmt.Sprintf("the message of %s has %q", c.kind, fill(c.without)))
	}
	if strings.ContainsAny(is.Message, "\n\r") || len(is.Message) > longest {
		all = append(all, fmt.Sprintf("the message of %s is not one short line", c.kind))
	}
	return all
}

// expectOnce waits until an event of this kind has happened, with these words, and exactly once. On a busy machine, a
// server may have failed again after the cure: then the event has happened at most as often as the queue could be read
// again.
func (s *stage) expectOnce(of event) {
	s.t.Helper()
	if of.reason == "" {
		return
	}
	expected := And(HavePrefix(of.kind), containAll(s.fillAll(of.words)))
	s.Eventually(func(g Gomega) {
		all := must.Get(s.Events(s.t.Context()))(g)
		var notes []string
		recoveries := 0
		for _, is := range all {
			switch is.Reason {
			case of.reason:
				notes = append(notes, slices.Repeat([]string{is.Type + ": " + is.Note}, sjtest.Times(&is))...)
			case "QueueConnected":
				recoveries += sjtest.Times(&is)
			}
		}
		g.Expect(notes).To(HaveEach(expected))
		g.Expect(len(notes)).To(BeNumerically("<=", max(1, recoveries)))
	}).Should(Succeed(), s.explain)
}

func containAll(words []string) OmegaMatcher {
	matchers := []OmegaMatcher{Not(BeEmpty())}
	for _, each := range words {
		matchers = append(matchers, ContainSubstring(each))
	}
	return And(matchers...)
}

// expectJobs waits until each message has its Job, and where Pods run, each Job its Pod.
func (s *stage) expectJobs() {
	s.t.Helper()
	have := And(HaveField("ActiveJobs", BeEquivalentTo(s.waiting)))
	if s.podsRun {
		have = And(have, HaveField("PendingJobs", BeZero()))
	}
	s.Eventually(s.Status).Should(have, s.explain)
}

// explain is all that the ScaledJob says, and all events about it.
func (s *stage) explain() string {
	var text strings.Builder
	status := s.Status()
	fmt.Fprintf(&text, "%d messages should have their Jobs in the end. Now it says: %s\nEvents:\n", s.waiting, sjtest.Explain(&status))
	all, err := s.Events(s.t.Context())
	if err != nil {
		return err.Error()
	}
	for _, is := range all {
		fmt.Fprintf(&text, "%s %s ×%d: %s\n", is.Type, is.Reason, sjtest.Times(&is), is.Note)
	}
	return text.String()
}

// record writes what kubectl describe shows of the ScaledJob to a file.
func (s *stage) record(title string) {
	s.t.Helper()
	if *recordFolder == "" {
		return
	}
	shown := must.Get(s.in.Cluster.Kubectl(s.t.Context(), "describe", "sjob", s.Name, "--namespace="+s.Namespace))(s)
	s.Expect(os.WriteFile(filepath.Join(*recordFolder, title+".txt"), []byte(shown), 0o600)).To(Succeed())
}

// writeAnswers writes which situation has which number in the records.
func writeAnswers(t *testing.T) {
	t.Helper()
	if *recordFolder == "" {
		return
	}
	var text strings.Builder
	for number, each := range situations() {
		fmt.Fprintf(&text, "%02d %s\n", number+1, each.name)
	}
	g := NewWithT(t)
	g.Expect(os.MkdirAll(*recordFolder, 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(*recordFolder, "answers.txt"), []byte(text.String()), 0o600)).To(Succeed())
}

// TestSituationsHaveNamesOfTheirOwn keeps the table in order: RUN selects a situation by its name.
func TestSituationsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	known := map[string]bool{}
	for _, each := range situations() {
		g.Expect(each.name).To(MatchRegexp(`^[a-z0-9-]+$`))
		g.Expect(known).NotTo(HaveKey(each.name))
		known[each.name] = true
	}
	for _, each := range representatives {
		g.Expect(known).To(HaveKey(each))
	}
}

// Twenty faults at least are found by doctor and explained by explain, by the real operator's reports.
func TestThereAreTwentyFaults(t *testing.T) {
	t.Parallel()
	faults := 0
	for _, each := range situations() {
		if each.says.isFault() {
			faults++
		}
	}
	NewWithT(t).Expect(faults).To(BeNumerically(">=", 20))
}
