// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/programs"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/scene"
)

// setting is a control plane, a Redis server, and both contenders at work. They run as processes of their own, as the
// same ServiceAccount. The operator watches the namespace of its ScaledJob, so that the other's Jobs cost it
// nothing, and one that is hostile in some measurements.
type setting struct {
	control *cluster.Cluster
	redis   *redistest.Server
	sandbox *sandbox.Sandbox
	running *operator.Operator

	floor, ours *contender
}

// newSetting starts everything. Progress of builds goes to log.
func newSetting(ctx context.Context, log io.Writer) (*setting, error) {
	s := &setting{}
	if err := s.start(ctx, log); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

func (s *setting) start(ctx context.Context, log io.Writer) error {
	if err := s.startServers(ctx, log); err != nil {
		return err
	}
	if err := s.makeContenders(ctx); err != nil {
		return err
	}
	if err := s.startFloor(ctx, log); err != nil {
		return err
	}
	return s.startOurs(ctx, log)
}

func (s *setting) startServers(ctx context.Context, log io.Writer) (err error) {
	if s.sandbox, err = sandbox.New(); err != nil {
		return err
	}
	if s.redis, err = redistest.Start(ctx, redistest.Options{Log: log}); err != nil {
		return err
	}
	if s.control, err = cluster.Start(ctx, cluster.Options{Log: log}); err != nil {
		return err
	}
	return operator.Install(ctx, s.control)
}

func (s *setting) makeContenders(ctx context.Context) error {
	if err := scaledjobv1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return err
	}
	kube, err := client.NewWithWatch(s.control.Config(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	if s.floor, err = newContender(ctx, "floor", s.redis.Client(), kube); err != nil {
		return err
	}
	if s.ours, err = newContender(ctx, "ours", s.redis.Client(), kube); err != nil {
		return err
	}
	return s.makeHostileNamespace(ctx)
}

func (s *setting) startFloor(ctx context.Context, log io.Writer) error {
	_, _ = fmt.Fprintln(log, "building the floor …")
	if _, err := programs.Go(ctx, "", "build", "-o="+s.floorPath(), "miracle.dev/scaledjob-operator/test/bench/floor"); err != nil {
		return fmt.Errorf("building the floor: %w", err)
	}
	if err := s.writeKubeconfig(ctx); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	if _, err := s.runFloor("growth", s.floor); err != nil {
		return err
	}
	return s.floor.subscribed(ctx)
}

func (s *setting) floorPath() string { return filepath.Join(s.sandbox.Dir(), "floor") }

func (s *setting) kubeconfig() string { return filepath.Join(s.sandbox.Dir(), "kubeconfig") }

// runFloor has the floor work for the ScaledJob of a contender. By what, the floor says itself.
func (s *setting) runFloor(by string, of *contender) (*sandbox.Process, error) {
	return s.runFloorFor(by, of.sj.Namespace, of.sj.Name)
}

// runFloorFor has the floor work for the ScaledJobs of this name, as the floor understands it.
func (s *setting) runFloorFor(by, namespace, name string) (*sandbox.Process, error) {
	return s.sandbox.Start("floor", s.floorPath(), by, s.kubeconfig(), namespace, name)
}

// writeKubeconfig lets the floor be who the operator is, with the same rights and the same priority at the API server.
func (s *setting) writeKubeconfig(ctx context.Context) error {
	access, err := s.control.ServiceAccountConfig(ctx, operator.Namespace, operator.ServiceAccount)
	if err != nil {
		return err
	}
	const name = "floor"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: access.Host, CertificateAuthorityData: access.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: access.BearerToken}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, s.kubeconfig())
}

func (s *setting) startOurs(ctx context.Context, log io.Writer) (err error) {
	s.running, err = operator.Start(ctx, operator.Options{
		Cluster: s.control,
		Args:    []string{"--watch-namespaces=" + s.ours.sj.Namespace + "," + hostileNamespace},
		Log:     log,
	})
	if err != nil {
		return err
	}
	s.ours.reports = true
	return s.ours.subscribed(ctx)
}

// apiServerSeconds returns how many seconds of CPU the API server has used.
func (s *setting) apiServerSeconds(ctx context.Context) (float64, error) {
	clients, err := kubernetes.NewForConfig(s.control.Config())
	if err != nil {
		return 0, err
	}
	metrics, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	_, rest, _ := strings.Cut(string(metrics), "\nprocess_cpu_seconds_total ")
	value, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(value, 64)
}

// inTurn are both contenders. In every other turn the other one is the first.
func (s *setting) inTurn(turn int) []*contender {
	if turn%2 == 0 {
		return []*contender{s.floor, s.ours}
	}
	return []*contender{s.ours, s.floor}
}

// checkAndClear fails unless both are exact, and leaves both without messages and Jobs.
func (s *setting) checkAndClear(ctx context.Context) error {
	if err := scene.Pause(ctx, settleTime); err != nil {
		return err
	}
	for _, c := range s.inTurn(0) {
		if err := c.check(ctx); err != nil {
			return err
		}
		if err := c.clear(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all that was started.
func (s *setting) stop(ctx context.Context) error {
	var errs []error
	if s.running != nil {
		errs = append(errs, s.running.Stop(context.WithoutCancel(ctx)))
	}
	if s.control != nil {
		errs = append(errs, s.control.Stop())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Stop())
	}
	if s.sandbox != nil {
		errs = append(errs, s.sandbox.Close())
	}
	return errors.Join(errs...)
}
