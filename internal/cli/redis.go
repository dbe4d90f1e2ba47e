// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net"

	"github.com/spf13/cobra"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/internal/cli/doctor"
	"miracle.dev/scaledjob-operator/internal/cli/doctor/redis"
	"miracle.dev/scaledjob-operator/internal/cli/explain"
	"miracle.dev/scaledjob-operator/internal/cli/observe"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// inquiry are the flags for how to ask Redis.
type inquiry struct {
	// address is where the server with the keys can be reached from here; empty for the address in the spec.
	address string
	// live is a flag of explain, and scan and probe are flags of doctor.
	live, scan, probe bool
}

// addAddress adds the flag for the address.
func (i *inquiry) addAddress(cmd *cobra.Command) {
	cmd.Flags().StringVar(&i.address, "redis-address", "",
		"The host:port at which the Redis server with the keys can be reached from here, such as that of kubectl port-forward")
}

// check returns an error for an address that is none.
func (i *inquiry) check() error {
	if i.address == "" {
		return nil
	}
	if host, port, err := net.SplitHostPort(i.address); err != nil || host == "" || port == "" {
		return say("%q is no address. Write --redis-address=HOST:PORT", i.address)
	}
	return nil
}

// hostOf returns the host of the first address of the spec, which the certificate of the server is for.
func hostOf(spec *scaledjobv1.Redis) string {
	host, _, _ := net.SplitHostPort(spec.Addresses[0]) // The API server has checked it.
	return host
}

// readMessages adds the messages as Redis has them, or why they can't be read.
func (i *inquiry) readMessages(ctx context.Context, api *cluster, facts *explain.Facts) {
	sj := facts.ScaledJob.DeepCopy()
	if at := sj.Spec.Redis; i.address != "" && at != nil {
		if at.TLS != nil && at.TLS.ServerName == "" {
			at.TLS.ServerName = hostOf(at)
		}
		at.Mode, at.Addresses, at.Sentinel = scaledjobv1.RedisStandalone, []string{i.address}, nil
	} else if i.address != "" {
		sj.Spec.RedisAddress = i.address
	}
	var why string
	if facts.Live, why = observe.Queues(ctx, api, sj); why != "" {
		facts.Unreadable = append(facts.Unreadable, "Redis, so the messages are those of the status: "+why+" If only Pods can reach the address, use "+
			"kubectl port-forward and --redis-address.")
	}
}

// readRedis looks at Redis, with the credentials of the operator.
func (e *examination) readRedis(ctx context.Context, how *inquiry) error {
	spec := &e.facts.ScaledJob.Spec
	if spec.RedisAddress == "" && spec.Redis == nil {
		return nil // It was stored under another CRD.
	}
	target := doctor.TargetOf(e.facts.ScaledJob)
	target.Instead, target.Scan, target.Probe = how.address, how.scan, how.probe
	e.facts.Target = target
	var refused *failure.Error
	target.Access, target.Sentinels, refused = observe.Access(ctx, e.cluster, e.facts.ScaledJob)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case refused == nil:
	case refused.Reason == failure.ReasonUnreachable:
		return refused.Err
	case refused.Reason == failure.ReasonSecretNotFound, refused.Reason == failure.ReasonSecretForbidden:
		e.facts.Missing[doctor.NeedRedis] = refused.Message + " Without it, Redis can't be reached."
		return nil
	default:
		e.facts.RedisFault = refused
		return nil
	}
	if settings := target.Access.TLS; settings != nil && settings.ServerName == "" && target.Instead != "" {
		settings.ServerName = hostOf(spec.Redis)
	}
	e.facts.Redis = redis.Look(ctx, target)
	return ctx.Err()
}
