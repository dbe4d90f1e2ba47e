// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package oncall

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	prometheuskit "miracle.dev/scaledjob-operator/test/kit/prometheus"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

const (
	runbooks = "../../../docs/operations/runbooks"
	// anything is what a command may show that only has to succeed.
	anything = ""
	// notRun begins the reason why a command is not run.
	notRun = "not run: "
	// theLogs is how the runbooks read the logs of the operator, which is no Pod here.
	theLogs = "kubectl -n scaledjob-operator-system logs --selector=app.kubernetes.io/name=scaledjob-operator --prefix --since=1h --tail=-1"
)

// section is a section of a runbook: the fault to read it with, and what each of its commands, in their order, shows
// then.
type section struct {
	fault string
	shows []string
}

var sections = map[string]section{
	"README.md#Runbooks": {"Pods never become ready", []string{notRun + "it is an example", `worker`, `Conditions:`}},
	"no-jobs.md#Messages wait and no Job runs": {"Pods never become ready", []string{
		`worker +\S+ +2 +2 +2 `, `ScalingLimited=\w+ \w+: .`, `pod/worker-`,
	}},
	"no-jobs.md#The API server creates no Jobs": {"a quota refuses Jobs", []string{
		`quota.*jobs`, `count/jobs.batch +0 +0`, anything, `by:quota`, `patched`, `patched`,
	}},
	"no-jobs.md#No Job is desired or allowed": {"Pods never become ready", []string{anything, `:jobs 2`}},
	"too-many-jobs.md#Jobs run and the messages stay": {"Jobs fail", []string{
		`worker-\S+ +Failed`, `Pods Statuses:.* 1 Failed`, notRun + "no container runs", `20\d\d-`,
	}},
	"too-many-jobs.md#More Jobs than messages": {"more Jobs are due than maxReplicas allows", []string{`patched`}},
	"cluster-full.md#More Jobs are due than maxReplicas allows": {"more Jobs are due than maxReplicas allows", []string{
		`worker +\S+ +2 +1 +1 +1 .* AtMaxReplicas `, `worker-\S+ +Running`,
	}},
	"cluster-full.md#Jobs do not start": {"Pods never become ready", []string{
		` (JobsNotStarting|NotLimited) `, `pod/worker-\S+ +0/1 +Pending`, `Status: +Pending`, anything, `Ready`, notRun + "there is no Kueue",
	}},
	"jobs-late.md#A message is outstanding for long": {"a message of a stream is old", []string{`worker`, `:jobs 1 20\d\d-`}},
	"jobs-late.md#A queue is polled":                 {"Redis neither notifies nor tracks", []string{`Polling .`, `(?i)track`}},
	"jobs-late.md#A server does not track keys": {"Redis tracks no keys", []string{
		`Redis does not track keys`, `-client\|tracking`, notRun + "the server of this fault refuses CONFIG",
	}},
	"jobs-late.md#Events are lost": {"messages of a list wait for Pods", []string{`role:master`, `notify-keyspace-events`}},
	"jobs-late.md#Reactions are slow": {"the API server takes a second and a half to create a Job", []string{
		`scaledjob:worker`, `scaledjob:worker`, `\d`, `\d`, anything, `job.batch/test created`,
	}},
	"operator.md#The operator":               {"Pods never become ready", []string{`lease.coordination.k8s.io/`, `"level":"info"`}},
	"operator.md#No operator leads":          {"Pods never become ready", []string{anything}},
	"operator.md#Reconciles end with errors": {"statuses can't be written", []string{`"error":.*worker`, `scaledjobs.batch.miracle.dev/status`}},
	"operator.md#Reconciles of a namespace wait": {"the API server takes a second and a half to create a Job", []string{
		`(?s)job.batch/test created.*real`, anything,
	}},
	"operator.md#The operator runs out of memory": {"Pods never become ready", []string{notRun + "nobody measures Pods", `^[1-9]`, `^[1-9]`}},
	"redis.md#A ScaledJob is not Ready":           {"Redis is down", []string{`refused`, `worker .*False`, notRun + "no container runs"}},
	"redis.md#A certificate expires":              {"a certificate is valid for a day", []string{`"caSecretRef"`, `notAfter=`}},
}

// A command of a runbook is a line of a block, or kubectl in the text.
var command = regexp.MustCompile("(?ms)^```(?:shell|promql)\n(.+?)\n```$|`(kubectl [^`]+)`")

// commands are those of the runbooks, by their pages and sections.
func commands(g *WithT) map[string][]string {
	all := map[string][]string{}
	pages := must.Get(filepath.Glob(filepath.Join(runbooks, "*.md")))(g)
	for _, page := range pages {
		text := must.Get(os.ReadFile(page))(g)
		for _, part := range regexp.MustCompile(`(?m)^#+ `).Split(string(text), -1) {
			heading, rest, _ := strings.Cut(part, "\n")
			for _, found := range command.FindAllStringSubmatch(rest, -1) {
				name := filepath.Base(page) + "#" + heading
				all[name] = append(all[name], strings.Split(found[1]+found[2], "\n")...)
			}
		}
	}
	return all
}

// Each command of the runbooks can be copied: it runs while the fault is there that the runbook is about, and shows
// what the text speaks of.
func TestCommandsOfTheRunbooks(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := commands(g)
	for name, lines := range all {
		g.Expect(sections).To(HaveKey(name))
		g.Expect(sections[name].shows).To(HaveLen(len(lines)), name)
	}
	g.Expect(sections).To(HaveLen(len(all)), "there are no others")
	for name, section := range skip.AllBut(t, sections, "no-jobs.md#The API server creates no Jobs") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			fault, known := faults[section.fault]
			s.Expect(known).To(BeTrue())
			fault.bring(s)
			for i, line := range all[name] {
				if strings.HasPrefix(section.shows[i], notRun) {
					continue
				}
				s.Eventually(func() (string, error) {
					if fault.again != nil {
						fault.again(s)
					}
					return s.tryOut(line)
				}).Should(MatchRegexp(section.shows[i]), line)
			}
		})
	}
}

// tryOut runs a command for the stage: in a shell, as a query, or as a command of Redis.
func (s *stage) tryOut(line string) (string, error) {
	line = s.filled(line)
	words := strings.Fields(line)
	switch {
	case slices.Contains([]string{"kubectl", "time"}, words[0]):
		return s.shell(line)
	case words[0] == "redis-cli":
		var args []any
		for _, word := range words[3:] { // After -h HOST.
			args = append(args, word)
		}
		answer, err := s.Redis.Do(s.t.Context(), args...).Result()
		return fmt.Sprint(answer), err
	default:
		return ask(s.t.Context(), line)
	}
}

// ask queries both kinds of histograms.
func ask(ctx context.Context, expression string) (string, error) {
	var all []prometheuskit.Sample
	for _, each := range []*prometheuskit.Prometheus{prometheus, classic} {
		samples, err := each.Query(ctx, expression)
		if err != nil {
			return "", err
		}
		all = append(all, samples...)
	}
	return fmt.Sprint(all), nil
}

// filled replaces the words in capitals, but not variables of the shell.
func (s *stage) filled(line string) string {
	values := map[string]string{"NAMESPACE": s.Namespace, "NAME": s.Name, "SECRET": "redis", "USER": "default"}
	if jobs, err := shared.AllJobs.In(s.Namespace); err == nil && len(jobs) > 0 {
		values["JOB"] = jobs[0].Name
	}
	return regexp.MustCompile(`\$?\b[A-Z]+\b`).ReplaceAllStringFunc(line, func(word string) string {
		if value, known := values[word]; known {
			return value
		}
		return word
	})
}

// shell runs a command as the administrator, with the log of the operator instead of that of its Pods.
func (s *stage) shell(line string) (string, error) {
	path, err := programs.Path(s.t.Context(), os.Stderr, "kubectl")
	if err != nil {
		return "", err
	}
	folder := s.t.TempDir()
	if err := os.Symlink(path, filepath.Join(folder, "kubectl")); err != nil {
		return "", err
	}
	if piped, reads := strings.CutPrefix(line, theLogs); reads {
		line = theLogs + " && cat " + leader.LogPath() + piped
	}
	shell := exec.CommandContext(s.t.Context(), "bash", "-o", "pipefail", "-c", line)
	shell.Env = []string{
		"HOME=" + folder, "KUBECONFIG=" + shared.Cluster.Kubeconfig(), "NAMESPACE=" + s.Namespace, "NAME=" + s.Name,
		"PATH=" + folder + string(os.PathListSeparator) + os.Getenv("PATH"),
	}
	output, err := shell.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", line, err, output)
	}
	return string(output), err
}
