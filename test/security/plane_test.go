// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// plane is a control plane without nodes, the operator in it, and the
// administrator's view of both.
type plane struct {
	control  *cluster.Cluster
	admin    client.WithWatch
	jobs     *census
	operator *operator.Operator
	// statuses are what the operator ever wrote into ScaledJobs.
	statuses *statusWatch
}

func newPlane(ctx context.Context) (*plane, error) {
	control, err := cluster.Start(ctx, cluster.Options{CRDs: []string{crds}, Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	p := &plane{control: control}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, control.Stop())
	}
	return p, nil
}

// ownPlane is a plane for one test.
func ownPlane(t *testing.T, args ...string) *plane {
	t.Helper()
	p, err := newPlane(t.Context())
	if err == nil {
		err = p.run(t.Context(), args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if err := p.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
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
	if p.jobs, err = watchJobs(clients); err != nil {
		return err
	}
	p.statuses, err = watchStatuses(ctx, p.admin)
	return err
}

// run starts the operator of the plane.
func (p *plane) run(ctx context.Context, args ...string) (err error) {
	p.operator, err = operatorOf(ctx, p, args...)
	return err
}

// stop ends the plane. It is an error if the operator does not end well, or has
// told a secret.
func (p *plane) stop(ctx context.Context) error {
	var errs []error
	if p.operator != nil {
		told, err := p.evidence(ctx)
		errs = append(errs, err, p.operator.Stop(ctx))
		told["log"] = p.operator.Logs()
		errs = append(errs, planted.search(told))
	}
	return errors.Join(append(errs, p.control.Stop())...)
}

// census counts all Jobs of a control plane by a watch of its own. It lasts until
// the process ends.
type census struct {
	mu   sync.Mutex
	ever map[types.NamespacedName]int // by controller
}

func watchJobs(clients kubernetes.Interface) (*census, error) {
	informer := informers.NewSharedInformerFactory(clients, 0).Batch().V1().Jobs().Informer()
	c := &census{ever: map[types.NamespacedName]int{}}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.count})
	if err != nil {
		return nil, err
	}
	go informer.Run(nil)
	if !cache.WaitForCacheSync(nil, registration.HasSynced) {
		return nil, errors.New("the watch of Jobs did not start")
	}
	return c, nil
}

func (c *census) count(object any) {
	job, isJob := object.(*batchv1.Job)
	if !isJob {
		return
	}
	if owner := metav1.GetControllerOf(job); owner != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ever[types.NamespacedName{Namespace: job.Namespace, Name: owner.Name}]++
	}
}

// of returns how many Jobs this ScaledJob has created, those that are gone
// included.
func (c *census) of(owner types.NamespacedName) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ever[owner]
}
