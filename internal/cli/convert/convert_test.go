// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// update writes the expected manifests again.
var update = flag.Bool("update", false, "write the files with what is expected")

// examples are manifests with all that the documentation of KEDA shows of its ScaledJobs and its Redis triggers.
const examples = "testdata/keda"

func convertFile(t *testing.T, path string) Result {
	t.Helper()
	g := NewWithT(t)
	content := must.Get(os.ReadFile(path))(g)
	objects := must.Get(Parse(filepath.Base(path), content))(g)
	return Convert(objects)
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty())
	return files
}

// printed is all that a user gets to see of a conversion.
func printed(result Result) string {
	var text strings.Builder
	text.WriteString(strings.Join(result.Manifests, "---\n"))
	for _, each := range result.Unmapped {
		fmt.Fprintf(&text, "### %s (%s) %s: %s\n", each.Object, each.Source, each.Field, each.Text)
	}
	for _, each := range result.Wanted {
		fmt.Fprintf(&text, "### wanted: %s %s\n", each.Kind, title(each.Namespace, each.Name))
	}
	for _, each := range result.Ignored {
		fmt.Fprintf(&text, "### ignored: %s\n", each)
	}
	return text.String()
}

func TestTheExamplesAreConvertedAsExpected(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, file := range exampleFiles(t) {
		golden := filepath.Join("testdata", strings.TrimSuffix(filepath.Base(file), ".yaml")+".golden")
		is := printed(convertFile(t, file))
		if *update {
			g.Expect(os.WriteFile(golden, []byte(is), 0o600)).To(Succeed())
		}
		expected := must.Get(os.ReadFile(golden))(g)
		g.Expect(is).To(Equal(string(expected)), file)
	}
}

// A converted ScaledJob has no field that the API does not have, and creates no Jobs before somebody wants it to.
func TestConvertedScaledJobsAreOnesOfTheAPI(t *testing.T) {
	t.Parallel()
	for _, file := range exampleFiles(t) {
		for _, manifest := range convertFile(t, file).Manifests {
			var sj scaledjobv1.ScaledJob
			g := NewWithT(t)
			g.Expect(yaml.UnmarshalStrict([]byte(manifest), &sj)).To(Succeed(), manifest)
			g.Expect(sj.APIVersion).To(Equal("batch.miracle.dev/v1"))
			g.Expect(sj.Spec.Suspend).To(BeTrue(), manifest)
			g.Expect(sj.Spec.Threshold).To(BeNumerically(">=", 1), manifest)
			g.Expect(sj.Spec.JobTemplate.Spec.Template.Spec.Containers).NotTo(BeEmpty(), manifest)
		}
	}
}

func TestNoPasswordIsRepeated(t *testing.T) {
	t.Parallel()
	const password, encoded = "hunter2", "aHVudGVyMg=="
	for _, file := range exampleFiles(t) {
		is := printed(convertFile(t, file))
		// The environment of the workers is theirs, and part of the template.
		is = strings.ReplaceAll(is, "{name: PW, value: "+password+"}", "")
		NewWithT(t).Expect(is).NotTo(Or(ContainSubstring(password), ContainSubstring(encoded)), file)
	}
}

// Nothing is dropped without a word: each field of KEDA's spec has an effect, or is listed.
func TestUnknownFieldsAreListed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	result := convertFile(t, filepath.Join(examples, "impossible.yaml"))
	var fields []string
	for _, each := range result.Unmapped {
		fields = append(fields, each.Field)
		g.Expect(each.Text).To(MatchRegexp(`\.$`), "a sentence")
		g.Expect(each.Source).To(HavePrefix("impossible.yaml:"))
	}
	g.Expect(fields).To(ContainElements(
		"kind", "spec.fallback", "spec.rollout.pause", "spec.rollout.strategy", "spec.scalingStrategy.patience",
		"spec.scalingStrategy.strategy", "spec.scalingStrategy.multipleScalersCalculation", "spec.triggers[0].metadata.createGroup",
		"spec.triggers[0].metadata.listLength", "spec.triggers[0].metricType", "spec.triggers[0].password", "spec.triggers[5]",
	))
}

func TestWhatIsNeededIsWanted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	result := convertFile(t, filepath.Join(examples, "environment-unknown.yaml"))
	g.Expect(result.Wanted).To(ConsistOf(Reference{"ConfigMap", "media", "redis"}))
	result = convertFile(t, filepath.Join(examples, "list.yaml"))
	g.Expect(result.Wanted).To(BeEmpty(), "the password is not read")
}

func TestMinimumOnTopOfTheMaximum(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sj := only(t, `{minReplicaCount: 2, rollout: {strategy: gradual}}`)
	g.Expect(sj.Spec.SpareReplicas).To(BeEquivalentTo(2))
	g.Expect(sj.Spec.MaxReplicasOrDefault()).To(BeEquivalentTo(102))
	sj = only(t, `{minReplicaCount: 2, maxReplicaCount: 7}`)
	g.Expect(sj.Spec.MaxReplicasOrDefault()).To(BeEquivalentTo(7))
	sj = only(t, `{minReplicaCount: 9, maxReplicaCount: 7}`)
	g.Expect(sj.Spec.SpareReplicas).To(BeEquivalentTo(7))
}

// only is the ScaledJob converted from one with these further fields in its spec.
func only(t *testing.T, fields string) scaledjobv1.ScaledJob {
	t.Helper()
	g := NewWithT(t)
	var spec map[string]any
	g.Expect(yaml.Unmarshal([]byte(fields), &spec)).To(Succeed())
	spec["jobTargetRef"] = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "w"}}}}}
	spec["triggers"] = []any{map[string]any{"type": "redis", "metadata": map[string]any{"address": "a.b:1", "listName": "l"}}}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "metadata": map[string]any{"name": "it"}, "spec": spec,
	})
	g.Expect(err).NotTo(HaveOccurred())
	objects := must.Get(Parse("it.yaml", content))(g)
	result := Convert(objects)
	g.Expect(result.Manifests).To(HaveLen(1), "%v", result.Unmapped)
	var sj scaledjobv1.ScaledJob
	g.Expect(yaml.UnmarshalStrict([]byte(result.Manifests[0]), &sj)).To(Succeed())
	return sj
}

// KEDA's parameters are texts, but a file may have them as numbers, which the API server would refuse.
func TestParametersNeedNoQuotes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	objects := must.Get(Parse("it.yaml", []byte(`
apiVersion: keda.sh/v1alpha1
kind: ScaledJob
metadata: {name: it}
spec:
  jobTargetRef: {template: {spec: {containers: [{name: worker}]}}}
  triggers: [{type: redis, metadata: {address: "a.b:1", listName: 7, listLength: 20, enableTLS: true}}]
`)))(g)
	g.Expect(Convert(objects).Manifests).To(ConsistOf(And(
		ContainSubstring(`queueName: "7"`), ContainSubstring("threshold: 20"), ContainSubstring("mode: Enabled"),
	)))
}

func TestParse(t *testing.T) {
	t.Parallel()
	for manifest, expected := range map[string]string{
		"a: [":                 "it.yaml is not valid YAML: ",
		"kind: ScaledJob":      "it.yaml:1 is not an object of Kubernetes",
		"- 1":                  "it.yaml:1 is not an object of Kubernetes",
		"\n\nhello":            "it.yaml:3 is not an object of Kubernetes",
		"{\"kind\": \"Thing\"": "it.yaml is not valid YAML: ",
	} {
		_, err := Parse("it.yaml", []byte(manifest))
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(expected)), manifest)
	}
}

func TestParseTakesListsAndSeveralDocuments(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	objects := must.Get(Parse("it.yaml", []byte(`# Nothing but a comment.
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n}}
- {apiVersion: v1, kind: Secret, metadata: {name: b}}
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "c"}}
`)))(g)
	var names []string
	for i := range objects {
		names = append(names, objects[i].String())
	}
	g.Expect(names).To(Equal([]string{"ConfigMap n/a", "Secret b", "Deployment c"}))
	g.Expect(Convert(objects).Ignored).To(Equal([]string{"Deployment c"}))
}

// A small document must not stand for one that fills the memory.
func TestParseBoundsAliases(t *testing.T) {
	t.Parallel()
	bomb := "apiVersion: v1\nkind: ConfigMap\na0: &a0 [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
	for i := range 9 {
		alias := fmt.Sprintf("*a%d", i)
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Join(slices.Repeat([]string{alias}, 10), ", "))
	}
	_, err := Parse("it.yaml", []byte(bomb))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("more than 100000 values")))
}

// A manifest may be that of somebody else: what is in it stays in the comments.
func TestCommentsCanNotBeEnded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	objects := must.Get(Parse("it.yaml", []byte(`
apiVersion: keda.sh/v1alpha1
kind: ScaledJob
metadata: {name: "it\nkind: Secret"}
spec:
  jobTargetRef: {template: {spec: {containers: [{name: worker}]}}}
  triggers: [{type: redis, metadata: {address: "a.b:1", listName: l, "x\u2028y\rkind: Secret": z}}]
`)))(g)
	manifests := Convert(objects).Manifests
	g.Expect(manifests).To(HaveLen(1))
	var object map[string]any
	g.Expect(yaml.Unmarshal([]byte(manifests[0]), &object)).To(Succeed())
	g.Expect(object).To(HaveKeyWithValue("kind", "ScaledJob"))
	g.Expect(manifests[0]).To(And(HavePrefix("# Converted from KEDA's ScaledJob it kind: Secret.\n"), ContainSubstring("x y kind: Secret")))
}

func TestTextsAreQuotedWhereYAMLWouldReadSomethingElse(t *testing.T) {
	t.Parallel()
	for text, quoted := range map[string]bool{
		"emails": false, "bull:video:wait": false, "redis.mail.svc": false,
		"yes": true, "off": true, "1": true, "1e3": true, "": true, "ends:": true, "{a}": true, "a b": true, "a#b": true, "-": true,
	} {
		NewWithT(t).Expect(styleOf(text) != 0).To(Equal(quoted), text)
	}
}

func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(_ *testing.T, manifest []byte) {
		objects, err := Parse("it.yaml", manifest)
		if err != nil {
			return
		}
		Convert(objects) // It must not panic, whatever it is given.
	})
}
