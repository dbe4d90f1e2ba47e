// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/skip"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// random is text that hardly can be compressed.
var random = func() string {
	raw := make([]byte, 2*mib)
	numbers := rand.NewChaCha8([32]byte{})
	_, _ = numbers.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}()

// text returns some of it, another for each number.
func text(number, size int) string {
	from := number * 997 % (len(random) - size)
	return random[from : from+size]
}

// cronJobs are Jobs as CronJobs make them.
func cronJobs(count int) contents {
	managed := strings.Repeat(`"f:terminationMessagePath":{},`, 60)
	return contents{"batch/v1", "Job", count, func(to io.Writer, i int, onlyMetadata bool) {
		_, _ = fmt.Fprintf(to, `{"metadata":{"name":"report-%08d","namespace":"tenant","uid":"00000000-0000-4000-8000-%012d",
			"resourceVersion":"%d","generation":1,"creationTimestamp":"2026-01-02T03:04:05Z",
			"labels":{"batch.kubernetes.io/controller-uid":"00000000-0000-4000-8000-%012d","batch.kubernetes.io/job-name":"report-%08d"},
			"annotations":{"batch.kubernetes.io/cronjob-scheduled-timestamp":"2026-01-02T03:04:00Z"},
			"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"report","uid":"cron","controller":true}],
			"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"batch/v1",
			"time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{%s"f:a":{}}}]}`, i, i, i%900+1, i, i, managed)
		if !onlyMetadata {
			_, _ = io.WriteString(to, `,"spec":{"parallelism":1,"completions":1,"template":{"spec":{"restartPolicy":"OnFailure",
				"containers":[{"name":"report","image":"registry.example/report:1","env":[{"name":"A","value":"B"}]}]}}},
				"status":{"conditions":[{"type":"Complete","status":"True"}],"succeeded":1}`)
		}
		_, _ = io.WriteString(to, "}")
	}}
}

// annotatedJobs are Jobs with long annotations.
func annotatedJobs(count, size int) contents {
	return contents{"batch/v1", "Job", count, func(to io.Writer, i int, _ bool) {
		_, _ = fmt.Fprintf(to, `{"metadata":{"name":"note-%08d","namespace":"tenant","uid":"note-%d","resourceVersion":"%d",
			"annotations":{"note":%q}}}`, i, i, i%900+1, text(i, size))
	}}
}

// scaledJobs are ScaledJobs on a Redis server, each with the queue of its name. All but the first have the long
// template. If apart is true, each has a namespace of its own.
func scaledJobs(count int, redis, long string, apart bool) contents {
	return contents{"batch.miracle.dev/v1", "ScaledJob", count, func(to io.Writer, i int, onlyMetadata bool) {
		_, _ = fmt.Fprintf(to, `{"apiVersion":"batch.miracle.dev/v1","kind":"ScaledJob","metadata":{"name":"sj-%d","namespace":%q,
			"uid":"uid-%d","resourceVersion":"%d","generation":1}`, i, namespaceOf(i, apart), i, i%900+1)
		if !onlyMetadata {
			template := `{"name":"worker","image":"worker:1"}`
			if i > 0 {
				template += "]," + strings.ReplaceAll(long, "RANDOM", text(i, 1300*kib)) + `,"volumes":[`
			}
			_, _ = fmt.Fprintf(to, `,"spec":{"queueName":"sj-%d","redisAddress":%q,"threshold":1,"maxReplicas":5,
				"pollingIntervalSeconds":30,"jobTemplate":{"spec":{"template":{"spec":{"containers":[%s]}}}}}`, i, redis, template)
		}
		_, _ = io.WriteString(to, "}")
	}}
}

// neighbour is the namespace of the first ScaledJob.
const neighbour = "neighbour"

func namespaceOf(number int, apart bool) string {
	switch {
	case number == 0:
		return neighbour
	case apart:
		return fmt.Sprint("tenant-", number)
	}
	return "tenant"
}

// longString is a template with one long string.
const longString = `"schedulerName":"RANDOM"`

// manyItems is a template with very many items, each of which is short as JSON and takes much memory when it is
// decoded. heaviest has as many of those that take most as a template may have, and as many strings as fit next to
// them.
var (
	manyItems = `"tolerations":[` + strings.Repeat("{},", 450_000) + "{}]"
	heaviest  = `"initContainers":[` + strings.Repeat("{},", 4_990) + `{"args":[` + strings.Repeat(`"",`, 16_700) + `""]}]`
)

// attack is what a namespace has beside the small ScaledJob of another one.
type attack struct {
	jobs contents
	// scaledJobs have this template. refused is true if nobody gets Jobs of it.
	scaledJobs int
	template   string
	refused    bool
	// hangs is true if each of the ScaledJobs has a namespace of its own, and their creates hang at first.
	hangs bool
}

const (
	// busy is how many of the ScaledJobs have messages. There are 32 workers.
	busy = 40
	// hanging is how many creates hang at least at the same time, of as many namespaces.
	hanging = 16
)

var attacks = map[string]attack{
	"usual Jobs of CronJobs":          {jobs: cronJobs(50_000)},
	"Jobs with long annotations":      {jobs: annotatedJobs(2000, 200*kib)},
	"ScaledJobs with a long string":   {jobs: cronJobs(0), scaledJobs: 300, template: longString, refused: true},
	"ScaledJobs with very many items": {jobs: cronJobs(0), scaledJobs: 300, template: manyItems, refused: true},
	"ScaledJobs whose creates hang":   {jobs: cronJobs(0), scaledJobs: busy, template: heaviest, hangs: true},
}

// Nobody who may create Jobs and ScaledJobs can exhaust the memory of the operator: it stays within the limit of the
// Deployment, and creates Jobs meanwhile.
func TestMemoryOfTheShippedBinary(t *testing.T) {
	for name, attack := range skip.AllBut(t, attacks, "ScaledJobs with a long string") {
		t.Run(name, attack.run)
	}
}

func (a attack) run(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	redis := redistest.New(t, redistest.Options{})
	server := newAPIServer(t, a.jobs, scaledJobs(a.scaledJobs+1, redis.Addr(), a.template, a.hangs))
	if a.hangs {
		server.hold()
	}
	withJobs := 1
	for i := range min(a.scaledJobs, busy) + 1 {
		g.Expect(redis.Client().LPush(t.Context(), fmt.Sprint("sj-", i), 1, 2).Err()).To(Succeed())
		if i > 0 && !a.refused {
			withJobs++
		}
	}

	running := startShipped(t, operator.Options{Config: &rest.Config{Host: server.URL}})

	g.Eventually(server.jobsOf("neighbour/sj-0")).Should(Equal(2))
	if a.hangs {
		g.Eventually(server.read(func() int { return server.hanging })).Should(BeNumerically(">=", hanging))
		server.release()
	}
	g.Eventually(server.reports()).Should(Equal(a.scaledJobs + 1))
	g.Eventually(server.read(func() int { return len(server.created) })).Should(Equal(withJobs))
	expectWithinLimit(t, running)
	server.locked(func() {
		g.Expect(server.requests).To(And(HaveKey(jobsPath+" watch="), HaveKey(jobsPath+" watch=true")))
	})
}

// startShipped starts the binary as it is shipped.
func startShipped(t *testing.T, opts operator.Options) *operator.Operator {
	t.Helper()
	opts.Path, opts.Timeout = must.Get(programs.Shipped(t.Context(), nil))(NewWithT(t)), timeout
	return operator.New(t, opts)
}

// expectWithinLimit looks at the most memory that the operator has had.
func expectWithinLimit(t *testing.T, running *operator.Operator) {
	t.Helper()
	g := NewWithT(t)
	peak := must.Get(running.Memory("VmHWM"))(g)
	t.Logf("%d MiB of %d MiB", peak/mib, limit/mib)
	g.Expect(peak).To(BeNumerically("<", limit))
}

// asJSON converts a Job that was sent in the binary form.
func asJSON(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return body, nil
	}
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	object, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return runtime.Encode(codecs.LegacyCodec(batchv1.SchemeGroupVersion), object)
}
