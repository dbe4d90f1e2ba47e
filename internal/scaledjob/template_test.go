// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// usual is a template as users write it.
func usual(g Gomega) *batchv1.JobTemplateSpec {
	template := &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		BackoffLimit: new(int32(3)), TTLSecondsAfterFinished: new(int32(600)),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "worker"}, Annotations: map[string]string{"a/b": "c"}},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, ServiceAccountName: "worker"},
		},
	}}
	container := corev1.Container{Name: "worker", Image: "registry.example/team/worker:1.2.3", Args: []string{"--queue", "emails"}}
	for i := range 20 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "worker"}, Key: fmt.Sprint("key-", i)},
		}})
	}
	g.Expect(json.Unmarshal([]byte(`{"limits":{"memory":"1Gi"},"requests":{"cpu":"100m","memory":"1Gi"}}`), &container.Resources)).To(Succeed())
	template.Spec.Template.Spec.Containers = []corev1.Container{container}
	return template
}

// decoded returns the ScaledJob with this template as it comes from the API server.
func decoded(g Gomega, template *batchv1.JobTemplateSpec) *ScaledJob {
	data, err := json.Marshal(&scaledjobv1.ScaledJob{
		ObjectMeta: metav1.ObjectMeta{
			Name: "emails", Namespace: "mail", UID: "uid-1", ResourceVersion: "7", Generation: 2,
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}, Finalizers: []string{"a/b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: scaledjobv1.ScaledJobSpec{QueueName: "emails", JobTemplate: template},
	})
	g.Expect(err).NotTo(HaveOccurred())
	sj := &ScaledJob{}
	g.Expect(sj.UnmarshalJSON(data)).To(Succeed())
	g.Expect(sj.SpecErr).NotTo(HaveOccurred())
	return sj
}

func TestTemplateIsKept(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	template := usual(g)
	slimmed := must.Get(Slim(decoded(g, template)))(g)
	slim := slimmed.(*ScaledJob).DeepCopyObject().(*ScaledJob)
	g.Expect(slim.Spec.JobTemplate).To(BeNil())
	g.Expect(slim.Template.Hash).To(Equal(decoded(g, template).Template.Hash))
	unpacked := must.Get(slim.Template.Decode())(g)
	g.Expect(unpacked).To(Equal(template))
	g.Expect(slim.ObjectMeta).To(Equal(metav1.ObjectMeta{
		Name: "emails", Namespace: "mail", UID: "uid-1", ResourceVersion: "7", Generation: 2,
	}))
}

// tolerations returns a template with this number of objects, and four more.
func tolerations(count int) string {
	return `{"spec":{"template":{"spec":{"tolerations":[` + strings.Repeat("{},", count-1) + `{}]}}}}`
}

// A template is used up to its limits. A larger one is not even decoded, and nothing of it is kept: text that is no
// template is refused for its size.
func TestTemplatesAreUsedUpToTheirLimit(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	of := func(text string) *ScaledJob {
		var sj ScaledJob
		g.Expect(sj.UnmarshalJSON([]byte(`{"metadata":{"name":"emails"},"spec":{"queueName":"emails","jobTemplate":` + text + `}}`))).To(Succeed())
		slim := must.Get(Slim(&sj))(g)
		return slim.(*ScaledJob)
	}
	sized := func(form string, size int) string {
		return fmt.Sprintf(form, strings.Repeat("a", size-len(form)+len("%s")))
	}
	const valid, invalid = `{"metadata":{"annotations":{"a":"%s"}}}`, `{"metadata":"%s"}`

	accepted := of(sized(valid, maxTemplate))
	g.Expect(accepted.SpecErr).NotTo(HaveOccurred())
	g.Expect(accepted.Template.kept.text).To(HaveLen(maxTemplate))
	g.Expect(of(tolerations(maxObjects - 4)).SpecErr).NotTo(HaveOccurred())
	for text, want := range map[string]string{
		sized(valid, maxTemplate+1): "jobTemplate is larger than 64 KiB as JSON",
		sized(invalid, 65<<10):      "jobTemplate is larger than 64 KiB as JSON",
		sized(valid, 1400<<10):      "jobTemplate is larger than 64 KiB as JSON",
		tolerations(maxObjects - 3): "jobTemplate has more than 5000 JSON objects",
	} {
		refused := of(text)
		g.Expect(refused.Name).To(Equal("emails"))
		g.Expect(refused.SpecErr).To(MatchError(TooLargeError(want)))
		g.Expect(refused.Spec).To(Equal(scaledjobv1.ScaledJobSpec{}))
		g.Expect(refused.Template).To(Equal(Template{}))
		g.Expect(recall([]byte(text))).To(BeNil())
	}
}

// An upgrade of the operator, of its libraries or of the API server must not change the hash of a stored template:
// otherwise all Jobs would look like those of another template. So the expected hash is written down here.
func TestTheHashIsThatOfTheJSON(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const text = `{"metadata":{"labels":{"app":"a<b","team":"é"}},"spec":{"parallelism":1,"template":{"spec":{"containers":[{"image":"worker:1","name":"w"}]}}}}`
	of := func(text string) string {
		template := must.Get(pack([]byte(text)))(g)
		return template.Hash
	}
	g.Expect(of(text)).To(Equal("y29oxnawp3uy"))
	for how, same := range map[string]string{
		"keys in another order": `{"spec":{"template":{"spec":{"containers":[{"name":"w","image":"worker:1"}]}},"parallelism":1},` +
			`"metadata":{"labels":{"team":"é","app":"a<b"}}}`,
		"escapes and spaces": strings.NewReplacer("<", `\u003c`, "é", `\u00e9`, ":{", ": {\n").Replace(text),
	} {
		g.Expect(of(same)).To(Equal(of(text)), how)
	}
	hashes := map[string]bool{of(text): true, of(""): true}
	for _, other := range []string{
		strings.Replace(text, "worker:1", "worker:2", 1),
		strings.Replace(text, `"parallelism":1,`, "", 1),
		strings.Replace(text, `"parallelism":1`, `"parallelism":0`, 1),
		strings.Replace(text, `"spec":{"p`, `"spec":{"aFieldOfANewerVersion":1,"p`, 1),
		strings.Replace(text, `"name":"w"`, `"name":"w","resources":{}`, 1),
	} {
		g.Expect(hashes).NotTo(HaveKey(of(other)), other)
		hashes[of(other)] = true
	}
}

func TestTemplateThatCanNotBeDecoded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var sj ScaledJob
	g.Expect(sj.UnmarshalJSON([]byte(`{"spec":{"queueName":"emails","jobTemplate":{"spec":7}}}`))).To(Succeed())
	g.Expect(sj.SpecErr).To(MatchError(ContainSubstring("jobTemplate")))
	g.Expect(sj.Spec).To(Equal(scaledjobv1.ScaledJobSpec{}))
}

func TestSlimPassesOnOthers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	marker := toolscache.DeletedFinalStateUnknown{Key: "mail/emails"}
	g.Expect(Slim(marker)).To(Equal(marker))
}

// Equal templates are in the memory once, and none stays there that nobody holds.
func TestTemplatesAreKnownWhileTheyAreHeld(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	isKnown := func(text string) bool { return recall([]byte(text)) != nil }
	const text = `{"metadata":{"name":"held once"}}`
	first := must.Get(pack([]byte(text)))(g)
	second := must.Get(pack([]byte(text)))(g)
	g.Expect(second.kept).To(BeIdenticalTo(first.kept))
	other := must.Get(pack([]byte(`{"metadata":{"name":"another"}}`)))(g)
	g.Expect(other.Hash).NotTo(Equal(first.Hash))
	runtime.GC()
	g.Expect(isKnown(text)).To(BeTrue())
	runtime.KeepAlive(first)
	runtime.KeepAlive(second)

	g.Eventually(func() (is bool) { // The Go runtime runs clean-ups some time after a collection.
		runtime.GC()
		known.Lock()
		defer known.Unlock()
		_, is = known.templates[text]
		return is
	}).WithTimeout(30 * time.Second).Should(BeFalse())
	_, err := pack([]byte(`{"metadata":7}`))
	g.Expect(err).To(HaveOccurred())
	g.Expect(isKnown(`{"metadata":7}`)).To(BeFalse())
}

// Thousands of ScaledJobs have the same conditions, also long after the first was cached.
func TestConditionsShareTheirStrings(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	message := func() *byte {
		sj := &ScaledJob{}
		sj.Status.Conditions = []metav1.Condition{{Message: strings.Repeat("all is well ", 3)}}
		slim := must.Get(Slim(sj))(g)
		t.Cleanup(func() { runtime.KeepAlive(slim) })
		return unsafe.StringData(slim.(*ScaledJob).Status.Conditions[0].Message)
	}
	first := message()
	runtime.GC()
	runtime.GC()
	g.Expect(message()).To(BeIdenticalTo(first))
}
