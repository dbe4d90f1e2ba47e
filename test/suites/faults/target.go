// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/redistest"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
	"miracle.dev/scaledjob-operator/test/kit/tcpproxy"
)

const (
	// strikeTimeout is how soon a fault must have struck.
	strikeTimeout = 10 * time.Second
)

// tester is the user that tests and workers sign in as. The operator is the user default, to whom faults happen.
const tester = "tester"

// Target is a Redis server and the proxy by which the operator reaches it. Tests and workers go to the server itself.
type Target struct {
	Server *redistest.Server
	Proxy  *tcpproxy.Proxy
}

// NewTarget starts both. The context bounds the start.
func NewTarget(ctx context.Context) (*Target, error) {
	server, err := redistest.Start(ctx, redistest.Options{User: tester})
	if err != nil {
		return nil, err
	}
	proxy, err := tcpproxy.Start(server.Addr())
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return &Target{Server: server, Proxy: proxy}, nil
}

// Addr returns the host:port that the operator is to use.
func (t *Target) Addr() string { return t.Proxy.Addr() }

// Close ends both.
func (t *Target) Close() error { return errors.Join(t.Proxy.Close(), t.Server.Stop()) }

// cutOff breaks the connections that came by the proxy, and has new ones refused until the proxy lets them pass.
func (t *Target) cutOff() error {
	err := t.Proxy.Refuse()
	t.Proxy.Reset()
	return err
}

// command has the server carry out a command.
func (t *Target) command(ctx context.Context, args ...any) error {
	if err := t.Server.Client().Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("%v: %w", args, err)
	}
	return nil
}

// configure sets a parameter of the server.
func (t *Target) configure(ctx context.Context, parameter string, value any) error {
	return t.command(ctx, "CONFIG", "SET", parameter, value)
}

// awaitRefusal returns once the server answers PING by an error with this code, which shows that a fault has struck. It
// gives up after ten seconds.
func (t *Target) awaitRefusal(ctx context.Context, code string) error {
	ctx, cancel := context.WithTimeout(ctx, strikeTimeout)
	defer cancel()
	err := sjtest.Await(ctx, func(ctx context.Context) error {
		err := t.command(ctx, "PING")
		switch {
		case err == nil:
			return errors.New("the server carries out the command")
		case strings.Contains(err.Error(), code):
			return nil
		default:
			return err
		}
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", code, err)
	}
	return nil
}

// Setting is a control plane without nodes, and an operator that learns of a queue only from events, confirmations and
// its own retries.
type Setting struct {
	Control  *cluster.Cluster
	API      client.Client // the administrator's
	Operator *operator.Operator
}

// NewSetting starts a setting. The log gets progress lines and may be nil. The context bounds the start.
func NewSetting(ctx context.Context, log io.Writer) (*Setting, error) {
	control, api, err := operator.StartCluster(ctx, cluster.Options{Log: log})
	if err != nil {
		return nil, err
	}
	running, err := operator.Start(ctx, operator.Options{Cluster: control, Args: []string{"--polling-fallback-interval=0"}, Log: log})
	if err != nil {
		return nil, errors.Join(err, control.Stop())
	}
	return &Setting{Control: control, API: api, Operator: running}, nil
}

// Stop ends the operator, which must end well, and the control plane, unless the setting is nil.
func (s *Setting) Stop(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return errors.Join(s.Operator.Stop(ctx), s.Control.Stop())
}

// Alive returns an error unless the operator runs and says that it is well.
func (s *Setting) Alive(ctx context.Context) error {
	select {
	case <-s.Operator.Exited():
		return errors.New("the operator has ended")
	default:
	}
	if _, err := operator.Get(ctx, s.Operator.ProbeURL()+"/healthz"); err != nil {
		return fmt.Errorf("asking whether the operator is well: %w", err)
	}
	return nil
}
