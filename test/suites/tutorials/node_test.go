// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package tutorials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/redistest/rediscli"
)

// sampleRedis is the host of the server that the pages use.
const sampleRedis = "redis.default.svc.cluster.local"

// runContainers runs the containers of the Pods of a ScaledJob on this machine, as the node that the control plane
// lacks, until the test ends.
func runContainers(t *testing.T, scaledJob string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pods, err := shared.API.Watch(ctx, &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{scaledjobv1.LabelScaledJob: scaledJob})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	path := rediscli.Folder(t) + ":" + os.Getenv("PATH")
	var group errgroup.Group
	group.Go(func() error {
		started := map[types.UID]bool{}
		for event := range pods.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			if is && pod.Status.Phase == corev1.PodRunning && !started[pod.UID] {
				started[pod.UID] = true
				group.Go(func() error { return runContainer(ctx, pod, path) })
			}
		}
		return nil
	})
	t.Cleanup(func() {
		cancel()
		pods.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// runContainer runs the container of a Pod, and writes its exit code into the status.
func runContainer(ctx context.Context, pod *corev1.Pod, path string) error {
	workers, err := filepath.Abs(filepath.Join(root, workersFolder))
	if err != nil {
		return err
	}
	// What is simulated knows a host with its port.
	here := strings.NewReplacer(sampleRedis+":6379", shared.redis.Addr(), sampleRedis, shared.redis.Addr(), "/worker/", workers+"/")
	container := pod.Spec.Containers[0]
	var words []string
	for _, word := range append(container.Command, container.Args...) {
		words = append(words, here.Replace(word))
	}
	process := exec.CommandContext(ctx, words[0], words[1:]...)
	process.Env = append(os.Environ(), "PATH="+path)
	for _, each := range container.Env {
		value := here.Replace(each.Value)
		if each.ValueFrom != nil {
			value = pod.Labels["batch.kubernetes.io/job-name"]
		}
		process.Env = append(process.Env, each.Name+"="+value)
	}
	var exit *exec.ExitError
	err = process.Run()
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled): // The test is over.
		return nil
	case err == nil, errors.As(err, &exit):
		return ended(ctx, pod, process.ProcessState.ExitCode())
	default:
		return fmt.Errorf("running a container: %w", err)
	}
}

// ended writes into the status of a Pod that its container has ended.
func ended(ctx context.Context, pod *corev1.Pod, code int) error {
	changed := pod.DeepCopy()
	changed.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		changed.Status.Phase = corev1.PodFailed
	}
	for i := range changed.Status.ContainerStatuses {
		changed.Status.ContainerStatuses[i].Ready = false
		changed.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code)}}
	}
	return client.IgnoreNotFound(shared.API.Status().Patch(ctx, changed, client.StrategicMergeFrom(pod)))
}
