// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/internal/jobs"
	"miracle.dev/scaledjob-operator/internal/scaledjob"
)

// templateRow is a row of testdata/templates.yaml, which says what its fields mean.
type templateRow struct {
	Name    string `json:"name"`
	Short   bool   `json:"short"`
	Since   string `json:"since"`
	Answer  string `json:"answer"`
	Applied string `json:"applied"`

	Metadata    json.RawMessage `json:"metadata"` // It may be null.
	PodMetadata json.RawMessage `json:"podMetadata"`
	Job         map[string]any  `json:"job"`
	Pod         map[string]any  `json:"pod"`
	Container   map[string]any  `json:"container"`
}

// answer says which of these is accepted: the Job, the ScaledJob, and the Job that the operator makes of it.
type answer struct{ job, scaledJob, built bool }

var answers = map[string]answer{
	"":                    {job: true, scaledJob: true, built: true},
	"refused":             {},
	"dry run":             {scaledJob: true},
	"only as a Job":       {job: true},
	"only as a ScaledJob": {scaledJob: true, built: true},
}

// templateRows are the rows to try.
func templateRows(g Gomega) []templateRow {
	content, err := os.ReadFile("testdata/templates.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var rows []templateRow
	g.Expect(yaml.UnmarshalStrict(content, &rows)).To(Succeed())
	for _, row := range rows {
		g.Expect(answers).To(HaveKey(row.Answer), row.Name)
	}
	return slices.DeleteFunc(rows, func(row templateRow) bool { return testing.Short() && !row.Short })
}

// template is the template that the row is about.
func (r *templateRow) template() map[string]any {
	container := map[string]any{"name": "worker", "image": "worker:1"}
	maps.Copy(container, r.Container)
	pod := map[string]any{"restartPolicy": "Never", "containers": []any{container}}
	maps.Copy(pod, r.Pod)
	template := map[string]any{"spec": pod}
	if r.PodMetadata != nil {
		template["metadata"] = r.PodMetadata
	}
	job := map[string]any{"template": template}
	maps.Copy(job, r.Job)
	all := map[string]any{"spec": job}
	if r.Metadata != nil {
		all["metadata"] = r.Metadata
	}
	return all
}

// job is a Job of the template. It has a name of its own, and lacks what a new object must not have.
func (r *templateRow) job(name string) map[string]any {
	var given map[string]any
	_ = json.Unmarshal(r.Metadata, &given) // There may be none.
	metadata := map[string]any{"name": name}
	for field, content := range given {
		if !slices.Contains([]string{"name", "namespace", "uid", "resourceVersion", "managedFields"}, field) {
			metadata[field] = content
		}
	}
	return map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": r.template()["spec"]}
}

// scaledJob is a ScaledJob of the template.
func (r *templateRow) scaledJob(name string) map[string]any {
	return map[string]any{
		"apiVersion": "batch.miracle.dev/v1", "kind": "ScaledJob", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"queueName": "emails", "redisAddress": "redis:6379", "threshold": 1, "jobTemplate": r.template()},
	}
}

// nameOf is the name of the objects of a row, and of their files.
func nameOf(row int) string { return fmt.Sprintf("row-%d", row) }

// write writes an object for each row into a new folder, and returns its path.
func write(t *testing.T, rows []templateRow, object func(row *templateRow, name string) map[string]any) string {
	t.Helper()
	g, folder := NewWithT(t), t.TempDir()
	for i := range rows {
		encoded, err := json.Marshal(object(&rows[i], nameOf(i)))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.WriteFile(filepath.Join(folder, nameOf(i)+".json"), encoded, 0o600)).To(Succeed())
	}
	return folder
}

// verdict is what kubectl prints of the objects that are accepted, and why others are refused.
type verdict struct {
	accepted string
	refusals error
}

func (v verdict) accepts(row int) bool { return strings.Contains(v.accepted, "/"+nameOf(row)+"\n") }

// why is what kubectl says of a row that is refused, and of some others.
func (v verdict) why(row int) (lines []string) {
	for line := range strings.Lines(fmt.Sprint(v.refusals)) {
		if strings.Contains(line, nameOf(row)) {
			lines = append(lines, line)
		}
	}
	return lines
}

// tryAll has kubectl send all objects in a folder to a namespace, without having them stored.
func tryAll(t *testing.T, namespace, folder, request string) verdict {
	t.Helper()
	args := append(strings.Fields(request), "--dry-run=server", "--output=name", "--namespace="+namespace, "--filename="+folder)
	accepted, err := control.Kubectl(t.Context(), args...)
	return verdict{accepted, err}
}

// What the API server accepts as a Job, it accepts as the template of a ScaledJob, whichever request has it.
func TestTemplates(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rows := templateRows(g)
	asJobs, asScaledJobs := map[string]verdict{}, map[string]verdict{}
	jobFolder, folder := write(t, rows, (*templateRow).job), write(t, rows, (*templateRow).scaledJob)
	empty := control.NewNamespace(t, "templates")
	for _, request := range []string{"create", "apply", "apply --server-side"} {
		asJobs[request] = tryAll(t, empty, jobFolder, request)
		asScaledJobs[request] = tryAll(t, empty, folder, request)
	}
	// A Job can't get another template, so there is nothing to compare with edits but new Jobs.
	full := control.NewNamespace(t, "templates")
	others := write(t, rows, func(_ *templateRow, name string) map[string]any { return new(templateRow).scaledJob(name) })
	_, err := control.Kubectl(t.Context(), "apply", "--server-side", "--namespace="+full, "--filename="+others)
	g.Expect(err).NotTo(HaveOccurred())
	for _, request := range []string{"replace", "apply", "apply --server-side"} {
		asScaledJobs[request+", another before"] = tryAll(t, full, folder, request)
	}
	version := serverVersion(g)
	for i, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			want := answers[row.Answer]
			older := row.Since != "" && version.LT(semver.MustParse(row.Since))
			for request, says := range asJobs {
				accepted := want.job && !older && (row.Applied == "" || request != "apply --server-side")
				g.Expect(says.accepts(i)).To(Equal(accepted), "Job, %s: %s", request, says.why(i))
			}
			for request, says := range asScaledJobs {
				g.Expect(says.accepts(i)).To(Equal(want.scaledJob), "ScaledJob, %s: %s", request, says.why(i))
			}
			if want.scaledJob && !older {
				err := tryBuilt(t, empty, row.scaledJob(nameOf(i)))
				g.Expect(err == nil).To(Equal(want.built), "%v", err)
			}
		})
	}
}

func serverVersion(g Gomega) semver.Version {
	api, err := discovery.NewDiscoveryClientForConfig(control.Config())
	g.Expect(err).NotTo(HaveOccurred())
	info, err := api.ServerVersion()
	g.Expect(err).NotTo(HaveOccurred())
	version, err := semver.ParseTolerant(info.GitVersion)
	g.Expect(err).NotTo(HaveOccurred())
	return version
}

// tryBuilt creates a ScaledJob, of whose template nothing may get lost, and tries the Job that the operator makes of
// it.
func tryBuilt(t *testing.T, namespace string, object map[string]any) error {
	t.Helper()
	g := NewWithT(t)
	encoded, err := json.Marshal(object)
	g.Expect(err).NotTo(HaveOccurred())
	var sent, stored unstructured.Unstructured
	g.Expect(json.Unmarshal(encoded, &sent)).To(Succeed())
	sent.SetNamespace(namespace)
	sent.DeepCopyInto(&stored)
	scheme := runtime.NewScheme()
	g.Expect(batchv1.AddToScheme(scheme)).To(Succeed())
	api, err := client.New(control.Config(), client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	api = client.WithFieldValidation(api, "Strict")
	g.Expect(try(t.Context(), api, &stored)).To(Succeed())
	template := func(of *unstructured.Unstructured) any { return of.Object["spec"].(map[string]any)["jobTemplate"] }
	g.Expect(template(&stored)).To(Equal(template(&sent)))

	encoded, err = stored.MarshalJSON()
	g.Expect(err).NotTo(HaveOccurred())
	var owner scaledjob.ScaledJob
	g.Expect(json.Unmarshal(encoded, &owner)).To(Succeed())
	g.Expect(owner.SpecErr).NotTo(HaveOccurred())
	owner.Spec.JobTemplate, err = owner.Template.Decode()
	g.Expect(err).NotTo(HaveOccurred())
	return try(t.Context(), api, jobs.Build(&owner.ScaledJob, "", jobs.DryRunOrdinal, 0))
}
