// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"miracle.dev/scaledjob-operator/internal/leadership"
	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
)

// The defaults of flags.
const (
	defaultWorkers             = 32
	defaultFallbackInterval    = 5 * time.Second
	defaultServersPerNamespace = 64
)

// options are what the flags say.
type options struct {
	metricsAddress          string
	metricsSecure           bool
	probeAddress            string
	leaderElect             bool
	leaderElectionNamespace string
	election                leadership.Timing
	namespaces              []string
	workers                 int
	configureNotifications  bool
	fallbackInterval        time.Duration
	redisAllow              []netip.Prefix
	redisDeny               []netip.Prefix
	allowInsecureTLS        bool
	serversPerNamespace     int
	version                 bool
	zap                     zap.Options
}

// parseOptions reads the command line. It prints errors and help to out.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("scaledjob-operator", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "0",
		"The address to serve metrics on, such as :8443. 0 serves none.")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS to those who may get the path /metrics. If false, over HTTP to everybody.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081",
		"The address to serve /healthz and /readyz on. 0 serves neither.")
	o.bindElection(flags)
	flags.Func("watch-namespaces", "The namespaces to watch, separated by commas. All, if not given.", o.setNamespaces)
	flags.IntVar(&o.workers, "max-concurrent-reconciles", defaultWorkers, "How many ScaledJobs are reconciled at once, at least 1.")
	flags.BoolVar(&o.configureNotifications, "configure-redis-notifications", false,
		"Add to notify-keyspace-events of the Redis servers in use what the keys need that are watched there, where their users may CONFIG SET. "+
			"Flags that are there stay.")
	flags.DurationVar(&o.fallbackInterval, "polling-fallback-interval", defaultFallbackInterval,
		"How often a queue is looked at while it is not proven that its Redis announces growth, where pollingIntervalSeconds is longer. "+
			"0 means no sooner than that.")
	o.bindRedisAccess(flags)
	flags.BoolVar(&o.version, "version", false, "Print the version and exit.")
	o.zap.BindFlags(flags)
	config.RegisterFlags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if err := o.check(flags); err != nil {
		fmt.Fprintln(out, err)
		return o, err
	}
	return o, nil
}

// bindRedisAccess binds the flags that say which servers the users' ScaledJobs may name, and how many.
func (o *options) bindRedisAccess(flags *flag.FlagSet) {
	flags.Func("redis-allow-cidrs", "The networks that Redis may be in although they are denied, or this host's in a Pod, separated by commas. "+
		"Link-local addresses and metadata services of clouds can't be allowed. May be given several times.", appendPrefixes(&o.redisAllow))
	flags.Func("redis-deny-cidrs", "The networks that no connection is made to, separated by commas; 0.0.0.0/0,::/0 for all that are not allowed. "+
		"May be given several times.", appendPrefixes(&o.redisDeny))
	flags.BoolVar(&o.allowInsecureTLS, "allow-insecure-redis-tls", false,
		"Let ScaledJobs set spec.redis.tls.insecureSkipVerify. Anybody on the way to such a Redis can read the password.")
	flags.IntVar(&o.serversPerNamespace, "max-redis-servers-per-namespace", defaultServersPerNamespace,
		"How many databases of Redis servers the ScaledJobs of a namespace may use together. 0 means any number.")
}

func (o *options) check(flags *flag.FlagSet) error {
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: everything is said by flags", flags.Arg(0))
	}
	if o.workers < 1 {
		return errors.New("invalid value for flag -max-concurrent-reconciles: must be at least 1")
	}
	if o.fallbackInterval < 0 {
		return errors.New("invalid value for flag -polling-fallback-interval: must not be negative")
	}
	if o.serversPerNamespace < 0 {
		return errors.New("invalid value for flag -max-redis-servers-per-namespace: must not be negative")
	}
	return checkElection(o.election)
}

func (o *options) setNamespaces(list string) error {
	for namespace := range strings.SplitSeq(list, ",") {
		namespace = strings.TrimSpace(namespace)
		if namespace == "" {
			continue
		}
		if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
			return fmt.Errorf("%q is no namespace: %s", namespace, faults[0])
		}
		if !slices.Contains(o.namespaces, namespace) {
			o.namespaces = append(o.namespaces, namespace)
		}
	}
	return nil
}

// appendPrefixes returns how to read a flag of networks that may be given several times.
func appendPrefixes(to *[]netip.Prefix) func(list string) error {
	return func(list string) error {
		prefixes, err := dialguard.ParsePrefixes(list)
		*to = append(*to, prefixes...)
		return err
	}
}
