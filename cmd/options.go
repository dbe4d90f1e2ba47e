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
	"miracle.dev/scaledjob-operator/internal/redis/connection"
	"miracle.dev/scaledjob-operator/internal/redis/dialguard"
)

// The defaults of flags.
const (
	defaultWorkers             = 32
	defaultFallbackInterval    = 5 * time.Second
	defaultServersPerNamespace = 64
)

// options are the values of the flags.
type options struct {
	metricsAddress          string
	metricsSecure           bool
	metricsClientCA         string
	metricsCertDir          string
	metricsQueues           bool
	probeAddress            string
	profileAddress          string
	leaderElect             bool
	leaderElectionNamespace string
	leaderElectionID        string
	election                leadership.Timing
	namespaces              []string
	workers                 int
	configureNotifications  bool
	fallbackInterval        time.Duration
	redisAllow              []netip.Prefix
	redisDeny               []netip.Prefix
	allowInsecureTLS        bool
	serversPerNamespace     int
	connectionsPerServer    int
	version                 bool
	zap                     zap.Options
}

// parseOptions parses the command line. It prints errors and help to out.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	flags := o.bind()
	flags.SetOutput(out)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if err := o.check(flags); err != nil {
		fmt.Fprintln(out, err)
		return o, err
	}
	return o, nil
}

// bind defines all flags.
func (o *options) bind() *flag.FlagSet {
	flags := flag.NewFlagSet("scaledjob-operator", flag.ContinueOnError)
	o.bindMetrics(flags)
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081",
		"The `address` on which /healthz and /readyz are served. 0 disables them.")
	flags.StringVar(&o.profileAddress, "pprof-bind-address", "0",
		"The loopback `address` on which profiles are served below /debug/pprof/, to everybody who can connect, such as "+
			"127.0.0.1:6060. 0 disables them.")
	o.bindElection(flags)
	flags.Func("watch-namespaces", "The `namespaces` to watch, separated by commas. Can be repeated. (default all)",
		o.setNamespaces)
	flags.IntVar(&o.workers, "max-concurrent-reconciles", defaultWorkers,
		"The maximum `number` of ScaledJobs that are reconciled at the same time. Must be at least 1.")
	flags.BoolVar(&o.configureNotifications, "configure-redis-notifications", false,
		"Add the letters that the watched keys need to the setting notify-keyspace-events of their Redis servers. "+
			"Letters are never removed. The Redis user needs permission to run CONFIG GET and CONFIG SET.")
	flags.DurationVar(&o.fallbackInterval, "polling-fallback-interval", defaultFallbackInterval,
		"How often a queue is read while it is not verified that its Redis server reports changes, by notifications or by tracking. "+
			"Has no effect on ScaledJobs with a shorter pollingIntervalSeconds. 0 disables it, so that "+
			"pollingIntervalSeconds applies.")
	o.bindRedisAccess(flags)
	flags.BoolVar(&o.version, "version", false, "Print the version and exit.")
	o.zap.BindFlags(flags)
	// The text of controller-runtime names another default than the one that it uses.
	flags.Lookup("zap-time-encoding").Usage = "Zap `encoding` of times: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano. The default is rfc3339."
	config.RegisterFlags(flags)
	return flags
}

// bindRedisAccess defines the flags that restrict which Redis servers ScaledJobs may use, and how many.
func (o *options) bindRedisAccess(flags *flag.FlagSet) {
	flags.Func("redis-allow-cidrs", "The `networks` to which connections to Redis are allowed even if "+
		"-redis-deny-cidrs denies them, or if they are loopback addresses in a Pod. Separated by commas. "+
		"Can be repeated. Link-local addresses and cloud metadata services are always denied.",
		appendPrefixes(&o.redisAllow))
	flags.Func("redis-deny-cidrs", "The `networks` to which connections to Redis are denied. Separated by commas. "+
		"Can be repeated. 0.0.0.0/0,::/0 denies everything that -redis-allow-cidrs does not allow.",
		appendPrefixes(&o.redisDeny))
	flags.BoolVar(&o.allowInsecureTLS, "allow-insecure-redis-tls", false,
		"Allow ScaledJobs to set spec.redis.tls.insecureSkipVerify. The server's certificate is then not verified, "+
			"and anyone who can intercept the connection can read the password.")
	flags.IntVar(&o.serversPerNamespace, "max-redis-servers-per-namespace", defaultServersPerNamespace,
		"The maximum `number` of Redis databases that the ScaledJobs of a namespace can use in total, over all "+
			"servers. A database counts once for each user, Secrets and TLS settings that it is used with, and a Redis Cluster "+
			"once for each master that has keys of them. 0 means no limit.")
	flags.IntVar(&o.connectionsPerServer, "redis-connections-per-server", connection.DefaultConnections,
		"The maximum `number` of connections to a Redis server with the same credentials, over all its databases. "+
			"At least one, and at most all but two, are for reads. Notifications and client tracking take one for each "+
			"database. At least 3.")
}

func (o *options) check(flags *flag.FlagSet) error {
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are accepted", flags.Arg(0))
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
	if o.connectionsPerServer < connection.LeastConnections {
		return fmt.Errorf("invalid value for flag -redis-connections-per-server: must be at least %d", connection.LeastConnections)
	}
	return errors.Join(o.checkMetrics(), checkProfileAddress(o.profileAddress), checkLeaderElectionID(o.leaderElectionID), checkElection(o.election))
}

// checkProfileAddress returns an error for an address that others can reach: profiles show how much work the operator
// has, and taking them costs CPU. A host name is none, because it may have any address.
func checkProfileAddress(address string) error {
	if address == "0" {
		return nil
	}
	if parsed, err := netip.ParseAddrPort(address); err != nil || !parsed.Addr().IsLoopback() {
		return fmt.Errorf("invalid value for flag -pprof-bind-address: %q is not a loopback address with a port, such as "+
			"127.0.0.1:6060", address)
	}
	return nil
}

func (o *options) setNamespaces(list string) error {
	for namespace := range strings.SplitSeq(list, ",") {
		namespace = strings.TrimSpace(namespace)
		if namespace == "" {
			continue
		}
		if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
			return fmt.Errorf("%q is not a namespace: %s", namespace, faults[0])
		}
		if !slices.Contains(o.namespaces, namespace) {
			o.namespaces = append(o.namespaces, namespace)
		}
	}
	return nil
}

// appendPrefixes returns the parser of a flag that lists networks and can be repeated.
func appendPrefixes(to *[]netip.Prefix) func(list string) error {
	return func(list string) error {
		prefixes, err := dialguard.ParsePrefixes(list)
		*to = append(*to, prefixes...)
		return err
	}
}
