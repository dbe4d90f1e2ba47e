// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/internal/cli"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/manifests"
	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

// never is for step.looks.
const never = -1

// address stands for that of the Redis server in manifests.
const address = "ADDRESS"

// row is a ScaledJob of KEDA, and what happens to its queue.
type row struct {
	name string
	// spec is KEDA's in YAML, without the template of the Jobs, which rollouts leave alone. Or example is a manifest, as
	// its file and the name of the ScaledJob. With both, the fields of the spec are added.
	spec    string
	example string
	// replaced are texts of the manifest, each followed by what is in its place.
	replaced []string
	// extra are further objects in YAML.
	extra string
	// server is where the keys are. It returns a client, and what is to be replaced in the manifest. Nil means a server of
	// the row's own, without a password.
	server func(*testing.T) (client redis.UniversalClient, replaced []string)
	// fromCluster has convert read from the cluster, and incomplete is what convert can't convert.
	fromCluster bool
	incomplete  string
	// completed are the fields of the converted spec that somebody writes by hand then, in YAML.
	completed string
	steps     []step
}

// step is something that happens, and how many Jobs were created until then.
type step struct {
	what string
	do   []change
	// looks is how often KEDA looks at the keys afterwards. 0 means once.
	looks int
	keda  int
	ours  int
	// named is the place in the document that names the difference; nothing if there is none.
	named place
}

// judge returns why the numbers of created Jobs are not as they should be.
func (s step) judge(keda, ours int) error {
	var errs []error
	if keda != s.keda || ours != s.ours {
		errs = append(errs, fmt.Errorf("KEDA has created %d Jobs and the operator %d, where %d and %d are expected", keda, ours, s.keda, s.ours))
	}
	switch {
	case keda != ours && s.named == (place{}):
		errs = append(errs, fmt.Errorf("the numbers %d and %d differ, and no row of the document is named for that", keda, ours))
	case keda == ours && s.named != (place{}):
		errs = append(errs, fmt.Errorf("%q names a difference, and both have created %d Jobs", s.named.row, keda))
	}
	return errors.Join(errs...)
}

// play has everything happen, and compares after each step.
func (r row) play(t *testing.T) {
	t.Helper()
	s := r.stage(t)
	s.t.Cleanup(s.remove)
	for _, each := range r.steps {
		for _, happens := range each.do {
			happens(s)
		}
		for range max(cmp.Or(each.looks, 1), 0) {
			s.look()
		}
		keda, ours := s.settle(each.ours)
		s.Expect(each.judge(keda, ours)).To(Succeed(), "%s\n%s", each.what, s.explain())
	}
}

// settle waits until the operator has created so many Jobs and has nothing left to do, and returns how many Jobs there
// were of both.
func (s *stage) settle(expected int) (keda, ours int) {
	s.t.Helper()
	const quiet = 500 * time.Millisecond
	ctx := s.t.Context()
	await, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.ofOurs.AwaitCreated(await, expected); err != nil {
		s.t.Log(err)
	}
	s.Expect(s.ours.AwaitQuiet(ctx, quiet)).To(Succeed(), s.explain)
	s.Expect(errors.Join(s.ofTheirs.Sync(ctx), s.ofOurs.Sync(ctx))).To(Succeed())
	return s.ofTheirs.Created(), s.ofOurs.Created()
}

func (s *stage) explain() string {
	is, err := s.ours.Get(s.t.Context())
	if err != nil {
		return err.Error()
	}
	return sjtest.Explain(&is.Status)
}

// stage applies KEDA's ScaledJob, which is paused, and what convert makes of it, which it has suspended.
func (r row) stage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Gomega: NewWithT(t), t: t, namespace: control.Cluster.NewNamespace(t, "migration")}
	var replaced []string
	if r.server == nil {
		r.server = plain
	}
	s.redis, replaced = r.server(t)
	objects := r.manifest(s, strings.NewReplacer(append(replaced, r.replaced...)...))
	s.name = s.theirs.GetName()
	converted := r.convert(s, objects)
	s.theirs.SetAnnotations(map[string]string{paused: "true"})
	s.Expect(unstructured.SetNestedField(s.theirs.Object, int64(sjtest.Never), "spec", "pollingInterval")).To(Succeed())
	s.Expect(control.Cluster.Apply(t.Context(), documents(s, objects))).To(Succeed())
	s.Expect(control.Cluster.Apply(t.Context(), strings.NewReader(converted))).To(Succeed())
	s.Expect(control.API.Get(t.Context(), client.ObjectKeyFromObject(s.theirs), s.theirs)).To(Succeed())
	s.ours = &sjtest.ScaledJob{API: control.API, Operator: ours, Namespace: s.namespace, Name: s.name}
	s.observe()
	if r.completed != "" {
		var fields map[string]any
		s.Expect(yaml.Unmarshal([]byte(r.completed), &fields)).To(Succeed())
		s.patch(s.ours.Reference(), map[string]any{"spec": fields})
	}
	s.command("resume", s.name)
	return s
}

// manifest returns KEDA's ScaledJob of the row, which is the last one, and what it refers to.
func (r row) manifest(s *stage, replacer *strings.Replacer) (objects []*unstructured.Unstructured) {
	s.t.Helper()
	text := "apiVersion: keda.sh/v1alpha1\nkind: ScaledJob\nmetadata: {name: queue}\nspec: {jobTargetRef: {template: {spec: {containers: " +
		"[{name: worker, image: worker}]}}}, rollout: {strategy: gradual}}"
	file, name, _ := strings.Cut(r.example, " ")
	if name != "" {
		content := must.Get(os.ReadFile(filepath.Join(examples, file)))(s)
		text = string(content)
	}
	for _, object := range must.Get(manifests.Parse(replacer.Replace(text + "\n---\n" + r.extra)))(s) {
		object.SetNamespace(s.namespace)
		switch {
		case object.GetKind() != "ScaledJob":
			objects = append(objects, object)
		case name == "" || object.GetName() == name:
			s.theirs = object
		}
	}
	var fields map[string]any
	s.Expect(yaml.Unmarshal([]byte(replacer.Replace(r.spec)), &fields)).To(Succeed())
	for field, value := range fields {
		s.Expect(unstructured.SetNestedField(s.theirs.Object, value, "spec", field)).To(Succeed())
	}
	// Pods wait for startPods.
	s.Expect(unstructured.SetNestedField(s.theirs.Object, (24 * time.Hour).String(),
		"spec", "jobTargetRef", "template", "metadata", "annotations", cluster.PodReadyAfter)).To(Succeed())
	return append(objects, s.theirs)
}

// convert returns what the command prints for the objects.
func (r row) convert(s *stage, objects []*unstructured.Unstructured) string {
	s.t.Helper()
	if r.fromCluster {
		s.Expect(control.Cluster.Apply(s.t.Context(), documents(s, objects))).To(Succeed())
		return s.converted(r.incomplete, "--from-cluster", s.name)
	}
	file := filepath.Join(s.t.TempDir(), "keda.yaml")
	s.Expect(os.WriteFile(file, documents(s, objects).Bytes(), 0o600)).To(Succeed())
	return s.converted(r.incomplete, "--filename="+file)
}

// converted returns what convert prints. What it can't convert it says on standard error.
func (s *stage) converted(incomplete string, args ...string) string {
	s.t.Helper()
	out, errOut, code := s.run(append([]string{"convert"}, args...)...)
	if incomplete == "" {
		s.Expect(code).To(BeZero(), errOut)
	} else {
		s.Expect(code).To(Equal(2), errOut)
		s.Expect(errOut).To(ContainSubstring(incomplete))
	}
	return out
}

// command runs a command, which must succeed.
func (s *stage) command(args ...string) {
	s.t.Helper()
	_, errOut, code := s.run(args...)
	s.Expect(code).To(BeZero(), errOut)
}

func (s *stage) run(args ...string) (out, errOut string, code int) {
	s.t.Helper()
	var printed, failed bytes.Buffer
	code = cli.Run(s.t.Context(), cli.Options{
		Args: append([]string{"--kubeconfig=" + control.Cluster.Kubeconfig(), "--namespace=" + s.namespace}, args...),
		In:   strings.NewReader(""), Out: &printed, ErrOut: &failed, Version: "test",
	})
	return printed.String(), failed.String(), code
}

// documents are the objects in YAML.
func documents(g Gomega, objects []*unstructured.Unstructured) *bytes.Buffer {
	var text bytes.Buffer
	for _, object := range objects {
		content := must.Get(yaml.Marshal(object.Object))(g)
		text.WriteString("---\n")
		text.Write(content)
	}
	return &text
}

// plain is a server without a password. The examples have it by these names.
func plain(t *testing.T) (redis.UniversalClient, []string) {
	t.Helper()
	server := redistest.New(t, redistest.Options{Events: "Klgszt"})
	return server.Client(), replacedBy(server.Addr())
}

func replacedBy(is string) []string {
	return []string{address, is, "redis.example.svc:6379", is, "redis.mail.svc:6379", is, "redis:6379", is}
}
