// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	_ "embed" // the manifests
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FakeNode is the name of the Node whose kubelet this package simulates.
const FakeNode = "fake-node"

// podWorkers is how many Pods the simulated kubelet changes at a time.
const podWorkers = 8

// policyVersion is the version in the manifests, and policyArguments let older API servers have the kind: before
// Kubernetes 1.36 it is in beta and off.
var (
	policyVersion   = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	policyArguments = []string{
		"--feature-gates=MutatingAdmissionPolicy=true",
		"--runtime-config=admissionregistration.k8s.io/v1beta1=true",
	}
)

//go:embed manifests/node.yaml
var nodeManifests []byte

// startFakeNode creates the Node, simulates its kubelet until the cluster stops, and waits until Pods are placed on it.
func (c *Cluster) startFakeNode(ctx context.Context) error {
	if err := c.createNode(ctx); err != nil {
		return fmt.Errorf("creating %s: %w", FakeNode, err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	kubelet := newKubelet(c.client)
	c.stopFakeNode = func() { stop(); kubelet.wait() }
	kubelet.start(running)
	return poll(ctx, c.podsArePlaced)
}

// createNode applies the manifests, with the newest version of the policy that the API server has, and makes the Node
// ready.
func (c *Cluster) createNode(ctx context.Context) error {
	kind := schema.GroupKind{Group: policyVersion.Group, Kind: "MutatingAdmissionPolicy"}
	served, err := c.client.RESTMapper().RESTMapping(kind)
	if err != nil {
		return err
	}
	version := served.GroupVersionKind.GroupVersion().String()
	manifests := bytes.ReplaceAll(nodeManifests, []byte(policyVersion.String()), []byte(version))
	if err := c.Apply(ctx, bytes.NewReader(manifests)); err != nil {
		return err
	}
	var node corev1.Node
	if err := c.client.Get(ctx, client.ObjectKey{Name: FakeNode}, &node); err != nil {
		return err
	}
	node.Status = nodeStatus()
	return c.client.Status().Update(ctx, &node)
}

// podsArePlaced sends a dry run of a Pod, since the API server takes a moment to apply a new admission policy.
func (c *Cluster) podsArePlaced(ctx context.Context) error {
	token := false
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "placed-"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &token,
			Containers:                   []corev1.Container{{Name: "none", Image: "none"}},
		},
	}
	if err := c.client.Create(ctx, &pod, client.DryRunAll); err != nil {
		return err
	}
	if pod.Spec.NodeName != FakeNode {
		return fmt.Errorf("pods are not placed on %s", FakeNode)
	}
	return nil
}

// kubelet simulates the kubelet of the fake Node: it takes each Pod through its steps, without containers.
type kubelet struct {
	client client.WithWatch
	pods   cache.Store
	queue  workqueue.TypedRateLimitingInterface[string] // keys of pods
	group  sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]waitingStep // by the key of the Pod
}

// waitingStep is the step that a Pod waits for, and since when.
type waitingStep struct {
	pod   types.UID
	step  step
	since time.Time
}

func newKubelet(kube client.WithWatch) *kubelet {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, time.Second)
	return &kubelet{
		client:  kube,
		pods:    cache.NewStore(cache.MetaNamespaceKeyFunc),
		queue:   workqueue.NewTypedRateLimitingQueue(limiter),
		waiting: map[string]waitingStep{},
	}
}

// start returns at once. The kubelet stops when ctx ends.
func (k *kubelet) start(ctx context.Context) {
	// While the API server restarts, the reflector would log each failed watch.
	ctx = klog.NewContext(ctx, logr.Discard())
	reflector := cache.NewReflectorWithOptions(k.listWatch(), &corev1.Pod{}, queueingStore{k.pods, k.queue}, cache.ReflectorOptions{})
	k.group.Go(func() { reflector.RunWithContext(ctx) })
	for range podWorkers {
		k.group.Go(func() {
			for k.process(ctx) {
			}
		})
	}
	context.AfterFunc(ctx, k.queue.ShutDown)
}

// wait returns when everything has stopped.
func (k *kubelet) wait() { k.group.Wait() }

// listWatch reads the Pods of the fake Node.
func (k *kubelet) listWatch() *cache.ListWatch {
	ours := fields.OneTermEqualSelector("spec.nodeName", FakeNode)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			pods := &corev1.PodList{}
			return pods, k.client.List(ctx, pods, &client.ListOptions{FieldSelector: ours, Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return k.client.Watch(ctx, &corev1.PodList{}, &client.ListOptions{FieldSelector: ours, Raw: &options})
		},
	}
}

// process takes one Pod from the queue. It returns false when the queue was shut down.
func (k *kubelet) process(ctx context.Context) bool {
	key, shutDown := k.queue.Get()
	if shutDown {
		return false
	}
	defer k.queue.Done(key)
	item, exists, err := k.pods.GetByKey(key)
	if err != nil || !exists {
		k.forget(key)
		return true
	}
	pod := item.(*corev1.Pod)
	step, after := nextStep(pod)
	if remaining := k.remaining(key, pod.UID, step, after); remaining > 0 {
		k.queue.AddAfter(key, remaining)
		return true
	}
	if err := step.carryOut(ctx, k.client, pod); client.IgnoreNotFound(err) != nil {
		k.queue.AddRateLimited(key)
		return true
	}
	k.queue.Forget(key)
	return true
}

// remaining returns how long a step has still to wait, which is due after a time since the Pod came to it.
func (k *kubelet) remaining(key string, pod types.UID, step step, after time.Duration) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	current := k.waiting[key]
	if current.pod != pod || current.step != step {
		current = waitingStep{pod: pod, step: step, since: time.Now()}
		k.waiting[key] = current
	}
	return after - time.Since(current.since)
}

func (k *kubelet) forget(key string) {
	k.queue.Forget(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, key)
}

// queueingStore adds the key of each object that changes to a queue.
type queueingStore struct {
	cache.Store
	queue workqueue.TypedInterface[string]
}

func (s queueingStore) Add(object any) error    { return s.enqueue(object, s.Store.Add(object)) }
func (s queueingStore) Update(object any) error { return s.enqueue(object, s.Store.Update(object)) }
func (s queueingStore) Delete(object any) error { return s.enqueue(object, s.Store.Delete(object)) }

// Replace also adds the keys of what was there before.
func (s queueingStore) Replace(objects []any, version string) error {
	before := s.ListKeys()
	err := s.Store.Replace(objects, version)
	for _, key := range append(before, s.ListKeys()...) {
		s.queue.Add(key)
	}
	return err
}

func (s queueingStore) enqueue(object any, err error) error {
	if err != nil {
		return err
	}
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err == nil {
		s.queue.Add(key)
	}
	return err
}
