// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator runs the real operator as a child process against a control
// plane of package cluster, as the ServiceAccount that is shipped and with just
// the permissions that are shipped:
//
//	if err := operator.Install(ctx, control); err != nil { … }
//	running, err := operator.Start(ctx, operator.Options{Cluster: control})
//	…
//	err = running.Stop(ctx)
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/cluster/sandbox"
	"miracle.dev/scaledjob-operator/test/kit/programs"
)

const (
	// loopback is where the servers of tests are. The host may be a Pod.
	loopback = "127.0.0.0/8,::1"
	// processName is what messages and the log file call the process.
	processName = "operator"
	// startTimeout bounds the start once the binary is there, stopTimeout the
	// stop. Both take about a second on an idle machine.
	startTimeout = time.Minute
	stopTimeout  = time.Minute
)

// Options are the choices of Start.
type Options struct {
	// Cluster is what the operator works in. Install must have prepared it.
	Cluster *cluster.Cluster
	// Config is how the operator reaches and signs in to the API server: host, authority, token or client certificate.
	// Nil means as the ServiceAccount that Install has made.
	Config *rest.Config
	// Networks are those that Redis may be in although they are denied, as
	// --redis-allow-cidrs takes them. Empty means all loopback addresses.
	Networks string
	// Path is the program to run. Empty means that of programs.Operator.
	Path string
	// Timeout bounds the start once the binary is there. 0 means a minute.
	Timeout time.Duration
	// Unready has Start return as soon as the process runs. AwaitReady waits for the rest.
	Unready bool
	// Args are further flags, which win over those Start gives.
	Args []string
	// MemoryLimit is GOMEMLIMIT of the operator, such as 512MiB. Empty means that of this process.
	MemoryLimit string
	// Log gets a line when the operator is built. Nil means none.
	Log io.Writer
}

// Operator is a running operator. It is safe for concurrent use.
type Operator struct {
	sandbox    *sandbox.Sandbox
	process    *sandbox.Process
	probeURL   string
	metricsURL string
	recent     recentMetrics

	mu    sync.Mutex
	ended bool
	logs  string // of an operator that has ended
}

// Start builds the operator if need be, see programs.Operator, starts it and returns when it is ready: its caches are
// filled, though another operator may be leading. It serves its probes and, over HTTP, its metrics on free ports. The
// context bounds the start, not the life of the operator.
func Start(ctx context.Context, opts Options) (*Operator, error) {
	path := opts.Path
	if path == "" {
		var err error
		if path, err = programs.Operator(ctx, opts.Log); err != nil {
			return nil, err
		}
	}
	box, err := sandbox.New()
	if err != nil {
		return nil, err
	}
	operator := &Operator{sandbox: box}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(opts.Timeout, startTimeout))
	defer cancel()
	if err := operator.start(ctx, path, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the operator: %w", err), box.Close())
	}
	return operator, nil
}

// New is Start for a test. At its end the operator is stopped, unless that has
// been done, and its log is shown if the test has failed.
func New(tb testing.TB, opts Options) *Operator {
	tb.Helper()
	operator, err := Start(tb.Context(), opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), stopTimeout)
		defer cancel()
		if err := operator.Stop(ctx); err != nil {
			tb.Errorf("stopping the operator: %v", err)
		}
		if tb.Failed() {
			tb.Logf("log of the operator:\n%s", operator.Logs())
		}
	})
	return operator
}

func (o *Operator) start(ctx context.Context, path string, opts Options) error {
	kubeconfig, err := o.writeKubeconfig(ctx, opts)
	if err != nil {
		return err
	}
	args, err := o.serve()
	if err != nil {
		return err
	}
	args = append(args, "--kubeconfig="+kubeconfig, "--redis-allow-cidrs="+cmp.Or(opts.Networks, loopback))
	var environment []string
	if opts.MemoryLimit != "" {
		environment = append(environment, "GOMEMLIMIT="+opts.MemoryLimit)
	}
	if o.process, err = o.sandbox.StartWith(environment, processName, path, append(args, opts.Args...)...); err != nil || opts.Unready {
		return err
	}
	return o.AwaitReady(ctx)
}

// AwaitReady returns when the operator is ready.
func (o *Operator) AwaitReady(ctx context.Context) error {
	return o.process.WaitServing(ctx, http.DefaultClient, o.probeURL+"/readyz")
}

// serve chooses where the probes and metrics are, and returns the flags for it.
func (o *Operator) serve() (flags []string, err error) {
	probeAddress, err := o.sandbox.Address()
	if err != nil {
		return nil, err
	}
	metricsAddress, err := o.sandbox.Address()
	if err != nil {
		return nil, err
	}
	o.probeURL = "http://" + probeAddress
	o.metricsURL = "http://" + metricsAddress + "/metrics"
	return []string{
		"--health-probe-bind-address=" + probeAddress,
		"--metrics-bind-address=" + metricsAddress, "--metrics-secure=false",
	}, nil
}

func (o *Operator) writeKubeconfig(ctx context.Context, opts Options) (path string, err error) {
	path = filepath.Join(o.sandbox.Dir(), "kubeconfig")
	if opts.Config != nil {
		return path, cluster.WriteKubeconfig(opts.Config, path)
	}
	return path, opts.Cluster.WriteServiceAccountKubeconfig(ctx, Namespace, ServiceAccount, path)
}

// Exited is closed when the operator has ended, asked to or not.
func (o *Operator) Exited() <-chan struct{} { return o.process.Exited() }

// PID returns the process identifier.
func (o *Operator) PID() int { return o.process.PID() }

// Memory returns the operator's memory as the kernel counts it, in bytes: VmRSS is what it has, VmHWM the most ever.
func (o *Operator) Memory(what string) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.PID()))
	if err != nil {
		return 0, err
	}
	_, value, _ := strings.Cut(string(status), what+":")
	var kibibytes int
	_, err = fmt.Sscanf(value, "%d kB", &kibibytes)
	return kibibytes << 10, err
}

// LogPath returns the file that the operator logs to. It is gone when the operator has ended.
func (o *Operator) LogPath() string { return o.process.LogPath() }

// ProbeURL returns the base URL of /healthz and /readyz.
func (o *Operator) ProbeURL() string { return o.probeURL }

// MetricsURL returns the URL of the metrics.
func (o *Operator) MetricsURL() string { return o.metricsURL }

// MetricsAddress returns the host and the port of the metrics.
func (o *Operator) MetricsAddress() string {
	return strings.TrimSuffix(strings.TrimPrefix(o.metricsURL, "http://"), "/metrics")
}

// Stop sends SIGTERM, as a kubelet does, and waits until the operator has ended. It is an error if that takes longer
// than ctx, if the operator does not exit with status 0, or if its log shows a data race or a panic. Stopping an
// operator that was stopped or killed, or one that has not started and is nil, does nothing.
func (o *Operator) Stop(ctx context.Context) error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil
	}
	return errors.Join(o.process.Terminate(ctx), o.end())
}

// Kill ends the operator with SIGKILL, as a crash of its node does. A log that shows a data race or a panic is an
// error. Killing an operator that was stopped or killed does nothing.
func (o *Operator) Kill() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil
	}
	return errors.Join(o.process.Kill(), o.end())
}

// end keeps the log and closes the sandbox.
func (o *Operator) end() error {
	o.ended = true
	o.logs = o.process.Logs()
	return errors.Join(o.sandbox.Close(), faults(o.logs))
}

// Logs returns what the operator has logged until now.
func (o *Operator) Logs() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return o.logs
	}
	return o.process.Logs()
}

// LogsAbout returns the lines that hold a text, such as the name of a namespace.
func (o *Operator) LogsAbout(text string) string {
	var about strings.Builder
	for line := range strings.Lines(o.Logs()) {
		if strings.Contains(line, text) {
			about.WriteString(line)
		}
	}
	return about.String()
}

// faults finds in a log what no operator may do.
func faults(log string) error {
	for _, sign := range []string{"WARNING: DATA RACE", "Observed a panic"} {
		if _, rest, found := strings.Cut(log, sign); found {
			return fmt.Errorf("the operator logged: %s%s", sign, rest)
		}
	}
	return nil
}

// Get returns the body of the answer to a GET of a URL, such as that of the
// metrics or of a probe. Another answer than 200 is an error.
func Get(ctx context.Context, url string) (string, error) {
	return sandbox.Get(ctx, http.DefaultClient, url)
}

// DefaultLease is the name of the Lease, unless a flag says otherwise.
const DefaultLease = "scaledjob-operator.batch.miracle.dev"

// Leader returns who holds a Lease, and nothing while nobody does.
func Leader(ctx context.Context, api client.Reader, namespace, lease string) (string, error) {
	var found coordinationv1.Lease
	err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: lease}, &found)
	if err != nil || found.Spec.HolderIdentity == nil {
		return "", client.IgnoreNotFound(err)
	}
	return *found.Spec.HolderIdentity, nil
}

// AwaitLead returns when the operator leads.
func (o *Operator) AwaitLead(ctx context.Context) error {
	return o.process.WaitReady(ctx, func(ctx context.Context) error {
		metrics, err := o.Metrics(ctx)
		if err == nil && metrics["scaledjob_leader"] != 1 {
			err = errors.New("the operator does not lead")
		}
		return err
	})
}
