// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/cluster"
	"miracle.dev/scaledjob-operator/test/operator"
)

const crds = "../../config/crd/bases"

// plane is a control plane, ready for operators, and the administrator's view
// of it.
type plane struct {
	control *cluster.Cluster
	admin   client.WithWatch
	jobs    *jobWatch
}

func newPlane(ctx context.Context, opts cluster.Options) (*plane, error) {
	opts.CRDs = []string{crds}
	control, err := cluster.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	p := &plane{control: control}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, control.Stop())
	}
	return p, nil
}

func (p *plane) prepare(ctx context.Context) error {
	if err := operator.Install(ctx, p.control); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), scaledjobv1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if p.admin, err = client.NewWithWatch(p.control.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(p.control.Config())
	if err != nil {
		return err
	}
	p.jobs, err = watchJobs(clients)
	return err
}

// jobWatch sees all Jobs of a control plane by a watch of its own. It lasts
// until the process ends.
type jobWatch struct {
	store cache.Indexer

	mu   sync.Mutex
	ever map[string]int // by namespace
}

func watchJobs(clients kubernetes.Interface) (*jobWatch, error) {
	informer := informers.NewSharedInformerFactory(clients, 0).Batch().V1().Jobs().Informer()
	w := &jobWatch{store: informer.GetIndexer(), ever: map[string]int{}}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: w.count})
	if err != nil {
		return nil, err
	}
	go informer.Run(nil)
	if !cache.WaitForCacheSync(nil, registration.HasSynced) {
		return nil, errors.New("the watch of Jobs did not start")
	}
	return w, nil
}

func (w *jobWatch) count(object any) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ever[job.Namespace]++
}

// everIn is how many Jobs have been created in the namespace, those that are
// gone included.
func (w *jobWatch) everIn(namespace string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ever[namespace]
}

// in are the Jobs of the namespace. They must not be changed.
func (w *jobWatch) in(namespace string) ([]*batchv1.Job, error) {
	objects, err := w.store.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil, err
	}
	jobs := make([]*batchv1.Job, 0, len(objects))
	for _, object := range objects {
		job, ok := object.(*batchv1.Job)
		if !ok {
			return nil, errors.New("the watch of Jobs holds something else")
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}
