// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"miracle.dev/scaledjob-operator/test/kit/must"
)

// work is a namespace with a Redis and a ScaledJob whose Jobs take one message each, keep it in a second list while
// they work, and remove it.
type work struct {
	t         *testing.T
	namespace string
	jobs      *ledger
	pushed    int
}

// scaledJob takes the namespace, the number of Jobs at most, and more fields of the Jobs' spec. A message is the number
// of seconds that it takes. It lists Jobs that found no message.
const scaledJob = `apiVersion: batch.miracle.dev/v1
kind: ScaledJob
metadata:
  name: work
spec:
  redisAddress: redis.%[1]s.svc.cluster.local:6379
  queues:
  - name: work
  - {name: work:processing, role: InProgress}
  threshold: 1
  maxReplicas: %[2]d
  jobTemplate:
    spec:%[3]s
      template:
        spec:
          restartPolicy: Never
          terminationGracePeriodSeconds: 1
          securityContext:
            runAsNonRoot: true
            runAsUser: 1000
            seccompProfile: {type: RuntimeDefault}
          containers:
          - name: worker
            image: redis:7
            securityContext:
              allowPrivilegeEscalation: false
              capabilities: {drop: [ALL]}
            env:
            - {name: REDIS, value: redis.%[1]s.svc.cluster.local}
            command: [sh, -euc]
            args:
            - |
              redis() { redis-cli -e -h "$REDIS" "$@"; }
              message=$(redis LMOVE work work:processing RIGHT LEFT)
              if [ -z "$message" ]; then
                redis INCR wasted
                exit
              fi
              sleep "${message%%:*}"
              redis LREM work:processing 1 "$message"
              redis INCR done
`

// newWork creates the namespace and waits until its Redis runs. At the end of the test it is deleted.
func newWork(t *testing.T) *work {
	t.Helper()
	w := &work{t: t, namespace: newNamespace(t)}
	w.kubectl("apply", "-f", root("config/samples/redis.yaml"))
	w.kubectl("rollout", "status", "deployment/redis", "--timeout=2m")
	w.jobs = watchJobs(t, w.namespace)
	return w
}

func newNamespace(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "work-"}}
	created := must.Get(clients.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}))(g)
	atEnd(t, "kubectl delete namespace "+created.Name+" --wait=false")
	return created.Name
}

// start creates the ScaledJob, with more fields of the Jobs' spec, and waits until the operator has subscribed to the
// notifications of its Redis.
func (w *work) start(maximum int, fields ...string) {
	w.t.Helper()
	more := ""
	for _, field := range fields {
		more += "\n      " + field
	}
	apply(w.t, w.namespace, fmt.Sprintf(scaledJob, w.namespace, maximum, more))
	w.kubectl("wait", "scaledjob/work", "--for=condition=Ready", "--timeout=2m")
	w.kubectl("wait", "scaledjob/work", "--for=jsonpath={.status.mode}=Events", "--timeout=2m")
}

// push adds messages that take so long each.
func (w *work) push(messages int, each time.Duration) {
	w.t.Helper()
	NewWithT(w.t).Expect(w.tryPush(messages, each)).To(Succeed())
}

func (w *work) tryPush(messages int, each time.Duration) error {
	script := fmt.Sprintf(`for i in $(seq %d %d); do set -- "$@" "%g:$i"; done; redis-cli LPUSH work "$@"`,
		w.pushed+1, w.pushed+messages, each.Seconds())
	w.pushed += messages
	_, err := tryKubectl(w.t.Context(), "--namespace="+w.namespace, "exec", "deployment/redis", "--", "sh", "-c", script)
	return err
}

// expectRunning waits until so many Jobs have a container that works on a message.
func (w *work) expectRunning(jobs int) {
	w.t.Helper()
	NewWithT(w.t).Eventually(func() int { return w.number("LLEN", "work:processing") }).Should(Equal(jobs), "messages in progress")
}

// expectDone waits until all messages are done, and checks that each had exactly one Job, which nobody deleted.
func (w *work) expectDone() {
	w.t.Helper()
	g := NewWithT(w.t)
	g.Eventually(func() int { return w.number("GET", "done") }).Should(Equal(w.pushed), "messages done")
	g.Eventually(w.jobs.unfinished).Should(BeEmpty())
	g.Expect(w.number("GET", "wasted")).To(BeZero(), "Jobs that found no message")
	g.Expect(w.jobs.created()).To(Equal(w.pushed), "Jobs ever created")
	g.Expect(w.jobs.deletedUnfinished()).To(BeEmpty())
}

// number runs a command in Redis that answers a number.
func (w *work) number(command ...string) int {
	w.t.Helper()
	answer := strings.TrimSpace(w.kubectl(append([]string{"exec", "deployment/redis", "--", "redis-cli"}, command...)...))
	if answer == "" {
		return 0
	}
	number, err := strconv.Atoi(answer)
	NewWithT(w.t).Expect(err).NotTo(HaveOccurred())
	return number
}

func (w *work) kubectl(args ...string) string {
	w.t.Helper()
	return kubectl(w.t, append([]string{"--namespace=" + w.namespace}, args...)...)
}
