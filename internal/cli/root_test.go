// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"miracle.dev/scaledjob-operator/internal/cli/doctor"
)

// result is what a command has printed, and its exit code.
type result struct {
	out, errOut string
	code        int
}

// offline runs a command that must not need a cluster.
func offline(t *testing.T, input string, args ...string) result {
	t.Helper()
	return runWith(t, func(*genericclioptions.ConfigFlags) (*cluster, error) {
		t.Errorf("%q has built a client", args)
		return nil, errors.New("no cluster")
	}, input, args...)
}

func runWith(t *testing.T, connect func(*genericclioptions.ConfigFlags) (*cluster, error), input string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &app{
		Options: Options{Args: args, In: strings.NewReader(input), Out: &out, ErrOut: &errOut, Version: "v1.2.3"},
		connect: connect, now: time.Now,
	}
	code := a.run(t.Context())
	return result{out.String(), errOut.String(), code}
}

// Help has to be there at once, and without a cluster.
func TestHelpBuildsNoClient(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	all := [][]string{nil, {"__complete", "status", "-o", ""}}
	for _, args := range []string{
		"--help", "help", "help status", "status --help", "explain -h", "doctor --help", "suspend --help", "resume --help", "top --help",
		"plan --help", "init --help", "init --framework symfony", "__complete init --framework b", "convert --help", "version --help",
		"completion bash", "completion zsh", "completion fish", "completion powershell", "__complete stat",
	} {
		all = append(all, strings.Fields(args))
	}
	for _, args := range all {
		is := offline(t, "", args...)
		g.Expect(is.code).To(BeZero(), "%q", args)
		g.Expect(is.out).NotTo(BeEmpty(), "%q", args)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(offline(t, "", "version")).To(Equal(result{out: "v1.2.3\n"}))
}

const knownFrameworks = "bullmq, bull, asynq, laravel, rq, saq, arq, dramatiq, taskiq-stream, taskiq-list, symfony, celery-acks-late, celery, sidekiq, " +
	"resque, huey, machinery, list, list-popped, stream"

func TestInitNamesTheScaledJobAfterItsQueue(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	is := offline(t, "", "init", "--framework", "BullMQ", "--queue", "Order:Mails")
	g.Expect(is.code).To(BeZero(), is.errOut)
	g.Expect(is.out).To(And(ContainSubstring("\n  name: order-mails\n"), ContainSubstring("- name: bull:Order:Mails:wait\n"), Not(ContainSubstring("namespace:"))))
	is = offline(t, "", "init", "--framework=list", "--queue=a", "--name=b", "--redis-address=redis:1", "--image=worker", "--threshold=3", "-n", "mail")
	g.Expect(is.out).To(And(ContainSubstring("  namespace: mail\n  name: b\n"), ContainSubstring("  redisAddress: redis:1\n"), ContainSubstring("  threshold: 3\n"),
		ContainSubstring("            image: worker\n")))
}

// Other users of a machine see the arguments of a process.
func TestNoFlagTakesACredential(t *testing.T) {
	t.Parallel()
	is := offline(t, "", "status", "--help")
	for _, flag := range []string{"--token", "--password", "--username"} {
		NewWithT(t).Expect(is.out).NotTo(ContainSubstring(flag))
	}
}

func TestMistakesAreAnsweredInASentence(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, row := range []struct {
		args  string
		input string
		says  string
	}{
		{args: "stauts", says: `There is no command "stauts". Did you mean "status"?`},
		{args: "frobnicate", says: `There is no command "frobnicate". See the commands with: kubectl scaledjob --help`},
		{args: "status --frob", says: "unknown flag: --frob. See the flags with: kubectl scaledjob status --help"},
		{args: "status -o xml", says: `There is no output "xml". Use -o with one of: wide, json, yaml`},
		{args: "top -o xml", says: `There is no output "xml". Use -o with one of: wide, json, yaml`},
		{args: "top --interval 10ms", says: "The interval is 10ms, and has to be at least 1s."},
		{args: "explain", says: "Name one ScaledJob: kubectl scaledjob explain NAME"},
		{args: "explain a b", says: "Name one ScaledJob: kubectl scaledjob explain NAME"},
		{args: "doctor a b", says: "Name one ScaledJob: kubectl scaledjob doctor NAME"},
		{args: "doctor --scan", says: "Redis is checked for a ScaledJob. Name one: kubectl scaledjob doctor NAME"},
		{args: "doctor a --redis-address=localhost", says: `"localhost" is no address. Write --redis-address=HOST:PORT`},
		{args: "explain a --redis-address localhost:6379", says: "--redis-address is for --live."},
		{args: "explain a --live --redis-address=localhost", says: `"localhost" is no address. Write --redis-address=HOST:PORT`},
		{args: "suspend", says: "Name the ScaledJobs, or choose them with either -l or --all."},
		{args: "suspend a --all", says: "Name the ScaledJobs, or choose them with either -l or --all."},
		{args: "plan", says: "Say what to plan for: the name of a ScaledJob, -f with a manifest, or --depth with the number of messages."},
		{args: "plan a b", says: "Name one ScaledJob: kubectl scaledjob plan NAME"},
		{args: "plan --depth many", says: `"many" is not a number of messages. Write --depth N or --depth KEY=N.`},
		{args: "plan --depth -1", says: `"-1" is not a number of messages. Write --depth N or --depth KEY=N.`},
		{args: "plan --depth a=1+2", says: `Only a stream with a consumer group has waiting and pending entries: write --depth "a=N".`},
		{args: "plan --depth 1 --threshold 0", says: "The threshold of queue is 0, and has to be at least 1."},
		{args: "plan --depth 1 --max-replicas -1", says: "The fields of a ScaledJob are not negative."},
		{args: "plan --depth 1 --scaling-strategy Fast", says: `There is no scaling strategy "Fast". Use one of: Default, Accurate, Eager, Custom`},
		{args: "plan --depth 1 --active 2 --pending 3", says: "Of 2 active Jobs, 3 can't be pending and 0 claimed."},
		{args: "plan --depth 1 --active -2", says: "Numbers of Jobs are from 0 to 2147483647."},
		{args: "plan -f -", input: planInput, says: "There are 2 ScaledJobs in -. Name one of them: mail, events"},
		{args: "plan -f - event", input: planInput, says: `There is no ScaledJob "event" in -. Did you mean "events"?`},
		{args: "plan -f - mail --depth 3", input: planInput, says: "There are 2 keys. Write --depth KEY=N for each: urgent, bulk"},
		{args: "plan -f - mail --depth bluk=3", input: planInput, says: `There is no key "bluk". Did you mean "bulk"?`},
		{args: "plan -f - mail --depth bulk=3 --depth bulk=4", input: planInput, says: "There are too many numbers for bulk."},
		{args: "plan -f - events --depth 1+x", input: planInput, says: `"1+x" is not a number of entries. Write --depth "events=N+M".`},
		{args: "plan -f -", input: "{apiVersion: v1, kind: Pod, metadata: {name: a}}", says: "There is no ScaledJob of batch.miracle.dev in -."},
		{args: "plan -f -", input: "a: [", says: "- is not valid YAML: line 1: did not find expected node content."},
		{args: "plan -f no/such/file", says: "no/such/file can't be read: no such file or directory."},
		{
			args: "plan -f -", input: "{apiVersion: batch.miracle.dev/v1, kind: ScaledJob, spec: {queueName: a, treshold: 1}}",
			says: `-:1 is not a valid ScaledJob: unknown field "treshold".`,
		},
		{
			args: "plan -f -", input: "{apiVersion: batch.miracle.dev/v1, kind: ScaledJob, spec: {threshold: 1}}",
			says: "-:1 is not a valid ScaledJob: it needs queueName or queues.",
		},
		{args: "init", says: "Name the framework with --framework: " + knownFrameworks},
		{args: "init --framework bulmq", says: `There is no framework "bulmq". Did you mean "bullmq"?`},
		{args: "init --framework temporal", says: `There is no framework "temporal". The frameworks are: ` + knownFrameworks},
		{args: "init --framework bullmq", says: "Name the queue: --queue"},
		{args: "init --framework RQ --queue ---", says: `A ScaledJob can't have the name "". Choose one of lower case letters, digits and - with --name.`},
		{args: "init --framework rq --queue a --threshold 0", says: "The threshold is 0, and has to be at least 1."},
		{args: "convert", says: "Say what to convert: either -f with a file, a folder or - for standard input, or --from-cluster."},
		{args: "convert -f - --from-cluster", says: "Say what to convert: either -f with a file, a folder or - for standard input, or --from-cluster."},
		{args: "convert -f - name", says: "Names are for --from-cluster. Name files with -f."},
		{args: "convert -f no/such/file", says: "no/such/file can't be read: no such file or directory."},
		{args: "convert -f " + empty, says: "There is no manifest in " + empty + ". Their names end in .yaml, .yml or .json."},
		{args: "convert -f -", input: "a: [", says: "- is not valid YAML: line 1: did not find expected node content."},
		{args: "convert -f -", input: "a: 1", says: "-:1 is not an object of Kubernetes: it needs apiVersion, kind and metadata."},
		{args: "convert -f -", says: "There are no ScaledJobs of KEDA in the input."},
	} {
		is := offline(t, row.input, strings.Fields(row.args)...)
		NewWithT(t).Expect(is).To(Equal(result{errOut: "error: " + row.says + "\n", code: 1}), row.args)
	}
}

func TestErrorsOfAClusterAreASentence(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "batch.miracle.dev", Resource: "scaledjobs"}
	for says, err := range map[string]error{
		"Interrupted.": context.Canceled,
		"This cluster has no ScaledJobs. Install the operator and its CRD, or choose another cluster with --context.": &apimeta.NoKindMatchError{},
		`scaledjobs.batch.miracle.dev is forbidden: User "jane" cannot list it. Ask an administrator for this permission; the roles view and ` +
			"edit include those for ScaledJobs.": apierrors.NewForbidden(resource, "", errors.New(`User "jane" cannot list it`)),
		"The cluster does not accept your credentials. Sign in again, or choose other credentials with --context.": apierrors.NewUnauthorized("no"),
		"The API server does not answer: connection refused. Check the network, and the address in the context.": &url.Error{
			Op: "Get", URL: "https://example:6443/api", Err: errors.New("connection\nrefused"),
		},
		"No cluster is configured. Set KUBECONFIG, or use --kubeconfig or --context.": &url.Error{
			Op: "Get", URL: "http://localhost:8080/api", Err: errors.New("connection refused"),
		},
		"a.yaml can't be read: file does not exist.": &fs.PathError{Op: "open", Path: "a.yaml", Err: fs.ErrNotExist},
		"something else.": errors.New("something\nelse"),
	} {
		NewWithT(t).Expect(sentence(err)).To(Equal(says))
	}
}

func TestInterruptedCommandsEndSo(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	var errOut bytes.Buffer
	a := &app{
		Options: Options{Args: []string{"status"}, Out: &bytes.Buffer{}, ErrOut: &errOut}, now: time.Now,
		connect: func(*genericclioptions.ConfigFlags) (*cluster, error) {
			cancel()
			return nil, errors.New("client rate limiter Wait returned an error: context canceled")
		},
	}
	g.Expect(a.run(ctx)).To(Equal(exitInterrupted))
	g.Expect(errOut.String()).To(Equal("error: Interrupted.\n"))
}

func TestInterruptedInput(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	input, silent := io.Pipe()
	defer func() { g.Expect(silent.Close()).To(Succeed()) }()
	var errOut bytes.Buffer
	a := &app{Options: Options{Args: []string{"convert", "-f", "-"}, In: input, Out: &bytes.Buffer{}, ErrOut: &errOut}, now: time.Now}
	code := make(chan int)
	go func() { code <- a.run(ctx) }()
	cancel()
	g.Eventually(code).WithTimeout(30 * time.Second).Should(Receive(Equal(exitInterrupted)))
	g.Expect(errOut.String()).To(Equal("error: Interrupted.\n"))
}

func TestTheNearestName(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	existing := []string{"emails", "images", "video"}
	g.Expect(nearest("email", existing)).To(Equal("emails"))
	g.Expect(nearest("vdieo", existing)).To(Equal("video"))
	g.Expect(nearest("thumbnails", existing)).To(BeEmpty())
	g.Expect(nearest("", existing)).To(BeEmpty())
}

func TestConvertWritesManifestsAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	folder := t.TempDir()
	for name, content := range map[string]string{
		"keda.yaml": `
apiVersion: keda.sh/v1alpha1
kind: ScaledJob
metadata: {name: mail}
spec:
  jobTargetRef: {template: {spec: {containers: [{name: worker, image: worker}]}}}
  rollout: {strategy: gradual}
  triggers:
  - {type: redis, metadata: {address: "redis.mail.svc:6379", listName: mail, listLength: "1"}, authenticationRef: {name: login}}
`,
		"auth.json":  `{"apiVersion":"keda.sh/v1alpha1","kind":"TriggerAuthentication","metadata":{"name":"login"},"spec":{"secretTargetRef":[{"parameter":"password","name":"redis","key":"pw"}]}}`,
		"notes.txt":  "not a manifest",
		"other.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: redis}\n",
	} {
		g.Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(Succeed())
	}
	is := offline(t, "", "convert", "-f", folder)
	g.Expect(is.code).To(BeZero())
	g.Expect(is.errOut).To(Equal("Ignored, because no ScaledJob refers to it: Service redis.\n"))
	g.Expect(is.out).To(And(ContainSubstring("queueName: mail"), ContainSubstring("passwordSecretRef:\n        name: redis\n        key: pw")))

	content, err := os.ReadFile(filepath.Join(folder, "keda.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	is = offline(t, string(content), "convert", "-f", "-")
	g.Expect(is.code).To(Equal(exitUnmapped))
	g.Expect(is.out).To(ContainSubstring("queueName: mail"))
	g.Expect(is.errOut).To(HavePrefix("Not converted of mail (-:2):\n  - spec.triggers[0].authenticationRef: The TriggerAuthentication login was"))
}

// What is of no use is left out of a file, whatever it is.
func TestAFileWithManyKinds(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var others strings.Builder
	kinds := []string{"ConfigMap", "Service", "Deployment", "Job", "CronJob", "ScaledObject", "CustomResourceDefinition", "Role", "ServiceAccount"}
	for _, kind := range kinds {
		others.WriteString("---\napiVersion: example/v1\nkind: " + kind + "\nmetadata: {name: other}\nspec: {list: [a, {b: null}]}\n")
	}
	const own = "---\napiVersion: batch.miracle.dev/v1\nkind: ScaledJob\nmetadata: {name: mail}\nspec: {queueName: mail, threshold: 2}\n"
	file := others.String() + own + "---\n# Nothing.\n---\n"
	is := offline(t, file, "plan", "-f", "-", "--depth", "3")
	g.Expect(is.code).To(BeZero(), is.errOut)
	g.Expect(is.out).To(HavePrefix("mail: 3 messages outstanding, 0 Jobs active and 2 desired"))
	is = offline(t, file, "convert", "-f", "-")
	g.Expect(is).To(Equal(result{errOut: "error: There are no ScaledJobs of KEDA in the input.\n", code: 1}))
}

func TestReportsFitNarrowTerminals(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	facts := doctor.Facts{Namespace: "mail", CRD: doctor.CRD{Served: true}, Operators: []doctor.Operator{{Namespace: "ops", Name: "o", Wanted: 2, Ready: 1}}}
	report := doctor.Examine(&facts)
	plan := planFor(t, planInput, "-f - mail --depth urgent=3 --depth bulk=250 --active 2 --pending 1")
	for _, text := range []string{report.Text(minWidth, true), report.Text(minWidth, false), plan.Text(minWidth)} {
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			if len(words) > 3 { // A word may be longer.
				g.Expect(ansi.StringWidth(strings.TrimSuffix(line, "\n"))).To(BeNumerically("<=", minWidth), line)
			}
		}
	}
}
