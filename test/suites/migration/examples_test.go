// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/test/kit/redistest"
)

// password is the one that the examples have in Secrets, and login the Secret that one of them lacks.
const (
	password = "hunter2"
	login    = "{apiVersion: v1, kind: Secret, metadata: {name: redis-login}, stringData: {password: " + password + "}}"
)

// ofExamples are a row for each ScaledJob of the examples.
func ofExamples() []row {
	return []row{
		{
			name: "example-minimal", example: "minimal.yaml minimal",
			steps: []step{
				{what: "a threshold that nobody has set", do: []change{push("messages", 11)}, keda: 3, ours: 3},
				{what: "nothing has changed", keda: 3, ours: 3},
				{
					what: "an edit that is not one of the template", do: []change{raiseMaximum}, looks: 2, keda: 6, ours: 3,
					named: place{fields, "`rollout.strategy: immediate`, or unset"},
				},
			},
		},
		{
			name: "example-list", example: "list.yaml mail", server: inDatabase,
			steps: []step{
				{what: "not more than the activation threshold", do: []change{push("outgoing", 3)}},
				{what: "one more", do: []change{push("outgoing", 1)}, keda: 1, ours: 1},
				{what: "many more", do: []change{push("outgoing", 21)}, keda: 3, ours: 3},
				{what: "the maximum", do: []change{push("outgoing", 300)}, keda: 20, ours: 20},
			},
		},
		{
			name: "example-environment", example: "environment.yaml resize", server: inEnvironment, extra: login,
			steps: []step{{what: "messages", do: []change{push("images", 2)}, keda: 2, ours: 2}},
		},
		{
			name: "example-environment-unknown", example: "environment-unknown.yaml resize", fromCluster: true,
			extra:      "{apiVersion: v1, kind: ConfigMap, metadata: {name: redis}, data: {address: \"" + address + "\"}}",
			incomplete: "NO_SUCH_VARIABLE",
			steps:      []step{{what: "messages", do: []change{push("images", 2)}, keda: 2, ours: 2}},
		},
		{
			name: "example-cluster-list", example: "cluster.yaml shards-list", server: sharded,
			steps: []step{{what: "messages", do: []change{push("{jobs}:list", 6)}, keda: 2, ours: 2}},
		},
		{
			name: "example-cluster-stream", example: "cluster.yaml shards-stream", server: sharded, steps: pendingEntries("jobs", 10),
		},
		{
			name: "example-sentinel", example: "sentinel.yaml encode", server: guarded,
			steps: []step{
				{what: "spare Jobs", keda: 2, ours: 2},
				{what: "messages besides spare Jobs", do: []change{startPods, push("clips", 3)}, keda: 5, ours: 5},
			},
		},
		{
			name: "example-sentinel-stream", example: "sentinel.yaml encode-stream", server: guarded,
			steps: []step{
				{what: "not more than the activation threshold", do: []change{group("clips", "encoders"), add("clips", 2)}},
				{what: "more", do: []change{add("clips", 3)}, keda: 2, ours: 2},
				{what: "all are delivered", do: []change{startPods, read("clips", "encoders", 5)}, keda: 2, ours: 2},
			},
		},
		{
			// KEDA has 100 Jobs at once here, and the operator 103. That many are not needed to see the difference.
			name: "example-several", example: "several.yaml several", spec: "maxReplicaCount: 10",
			steps: []step{
				{what: "spare Jobs", do: []change{group("events", "a"), group("events", "b")}, keda: 3, ours: 3},
				{
					what: "messages in one of the keys", do: []change{push("urgent", 2)}, keda: 5, ours: 10,
					named: place{fields, "`scalingStrategy.strategy: eager`"},
				},
			},
		},
		{
			name: "example-added-up", example: "several.yaml added-up",
			steps: []step{
				{
					what: "each key below its activation threshold", do: []change{pushBoth(4, 9)}, keda: 0, ours: 3,
					named: place{parameters, "`activationListLength`"},
				},
				{what: "each key above it", do: []change{pushBoth(1, 1)}, keda: 3, ours: 3},
			},
		},
		{
			name: "example-custom", example: "strategies.yaml custom", incomplete: "pendingPodConditions",
			steps: []step{
				{what: "a minimum above the maximum", keda: 10, ours: 10},
				{
					what: "messages", do: []change{startPods, push("messages", 20)}, keda: 19, ours: 10,
					named: place{fields, "`maxReplicaCount`"},
				},
			},
		},
		{
			name: "example-not-a-number", example: "strategies.yaml not-a-number",
			steps: []step{
				{what: "messages", do: []change{push("messages", 3)}, keda: 2, ours: 2},
				{what: "the default strategy", do: []change{startPods, push("messages", 2)}, keda: 3, ours: 3},
			},
		},
		{
			name: "example-accurate", example: "strategies.yaml accurate",
			steps: []step{
				{what: "a minimum", keda: 1, ours: 1},
				{
					what: "a message that the one Job may take", do: []change{startPods, push("messages", 1)}, keda: 2, ours: 1,
					named: place{fields, "`minReplicaCount`"},
				},
			},
		},
		{name: "example-by-pending-entries", example: "streams.yaml by-pending-entries", steps: pendingEntries("events", 5)},
		{
			name: "example-by-lag", example: "streams.yaml by-lag",
			steps: []step{
				{what: "new entries", do: []change{group("events", "workers"), add("events", 30)}, keda: 2, ours: 2},
				{what: "some are delivered", do: []change{startPods, read("events", "workers", 30)}, keda: 2, ours: 2},
			},
		},
		{
			name: "example-by-length", example: "streams.yaml by-length",
			steps: []step{{what: "entries", do: []change{add("events", 60)}, keda: 2, ours: 2}},
		},
	}
}

// pendingEntries are entries of which no worker has read any, then a part, and then all: 2.5 times the threshold.
func pendingEntries(stream string, threshold int) []step {
	named := place{parameters, "`pendingEntriesCount`"}
	all := threshold*5/2 + 1
	return []step{
		{what: "new entries", do: []change{group(stream, "workers"), add(stream, all)}, keda: 0, ours: 3, named: named},
		{what: "a part is delivered", do: []change{read(stream, "workers", int64(threshold))}, keda: 1, ours: 3, named: named},
		{what: "all are delivered", do: []change{read(stream, "workers", int64(all-threshold))}, keda: 3, ours: 3},
	}
}

// raiseMaximum is an edit that does not change what is due.
func raiseMaximum(s *stage) {
	s.t.Helper()
	spec(map[string]any{"maxReplicaCount": 50}, map[string]any{"maxReplicas": 50})(s)
}

// secured is a server that asks for the password of the examples.
func secured(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.New(t, redistest.Options{User: "test", Args: []string{"--requirepass", password}})
}

// inDatabase is database 2 of a server with a password.
func inDatabase(t *testing.T) (redis.UniversalClient, []string) {
	t.Helper()
	server := secured(t)
	opts := *server.Client().Options()
	opts.DB = 2
	client := redis.NewClient(&opts)
	t.Cleanup(func() { _ = client.Close() })
	return client, replacedBy(server.Addr())
}

// inEnvironment is a server whose host and port are in the environment of the workers. It has no TLS, because KEDA only
// trusts the authorities of its system there.
func inEnvironment(t *testing.T) (redis.UniversalClient, []string) {
	t.Helper()
	server := secured(t)
	host, port, _ := strings.Cut(server.Addr(), ":")
	return server.Client(), []string{"redis.$(REDIS_REGION).svc", host, `"6380"`, `"` + port + `"`, `enableTLS: "true"`, `enableTLS: "false"`}
}

// sharded is a Redis Cluster with the user of the examples.
func sharded(t *testing.T) (redis.UniversalClient, []string) {
	t.Helper()
	g := NewWithT(t)
	all := redistest.NewSharded(t, redistest.ShardedOptions{Replicas: -1})
	for _, node := range all.Nodes {
		user := []any{"acl", "setuser", "scaler", "on", ">" + password, "~*", "&*", "+@all"}
		g.Expect(node.Client().Do(t.Context(), user...).Err()).To(Succeed())
	}
	addresses := all.Addresses()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	t.Cleanup(func() { _ = client.Close() })
	_, first, _ := strings.Cut(addresses[0], ":")
	_, second, _ := strings.Cut(addresses[1], ":")
	return client, []string{
		"node1.redis.svc:6379, node2.redis.svc:6379, node3.redis.svc:6379", strings.Join(addresses, ", "),
		"node1.redis.svc, node2.redis.svc", "127.0.0.1, 127.0.0.1", "6379, 6380", first + ", " + second,
	}
}

// guarded is a server with sentinels. They have neither TLS nor passwords: what is compared are numbers.
func guarded(t *testing.T) (redis.UniversalClient, []string) {
	t.Helper()
	all := redistest.NewReplicated(t, redistest.ReplicatedOptions{Replicas: 1, Sentinels: 1})
	sentinel := all.Sentinels[0].Addr()
	host, port, _ := strings.Cut(sentinel, ":")
	return all.Servers[0].Client(), []string{
		"sentinel-0.redis.svc:26379,sentinel-1.redis.svc:26379", sentinel, "sentinel-2.redis.svc:26379", sentinel,
		"sentinel-0.redis.svc,sentinel-1.redis.svc", host, "26379,26379", `"` + port + `"`, "mymaster", redistest.MasterName,
		`enableTLS: "true"`, `enableTLS: "false"`, `databaseIndex: "1"`, `databaseIndex: "0"`,
		"sentinelUsername: watcher\n", "\n", "username: scaler\n", "\n", "authenticationRef: {name: guarded}\n", "\n",
	}
}
