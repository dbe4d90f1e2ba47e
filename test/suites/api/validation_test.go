// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"math"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
)

// at makes values of dotted paths.
func at(path string, content any) value {
	return value{strings.Split(path, "."), content}
}

// many is a list of alternating paths and contents.
func many(pairs ...any) (values []value) {
	for i := 0; i < len(pairs); i += 2 {
		values = append(values, at(pairs[i].(string), pairs[i+1]))
	}
	return values
}

// container is the only container of the Pod template, with one more field.
func container(key string, content any) value {
	worker := map[string]any{"name": "worker", "image": "worker:1", key: content}
	return at("spec.jobTemplate.spec.template.spec.containers", []any{worker})
}

// key is a map with this key, as labels and annotations are.
func key(name string) map[string]any { return map[string]any{name: "value"} }

// expectRefused says that the object was refused because of this field, and says so in these words.
func expectRefused(g Gomega, err error, field, words string) {
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	var status apierrors.APIStatus
	g.Expect(errors.As(err, &status)).To(BeTrue())
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, strings.TrimPrefix(cause.Field, "."))
	}
	g.Expect(fields).To(ContainElement(field), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring(words)))
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	const twoBytes, fourBytes = "ä", "🙂"
	for name, values := range map[string][]value{
		"the article's fields":                 nil,
		"queueName of 1,024 bytes":             many("spec.queueName", strings.Repeat("q", 1024)),
		"queueName of 512 times 2 bytes":       many("spec.queueName", strings.Repeat(twoBytes, 512)),
		"queueName of 256 times 4 bytes":       many("spec.queueName", strings.Repeat(fourBytes, 256)),
		"queueName with anything in it":        many("spec.queueName", " {a}:*?[b]\t\x00\n"),
		"largest threshold":                    many("spec.threshold", int64(math.MaxInt64)),
		"activationThreshold 0":                many("spec.activationThreshold", int64(0)),
		"minReplicas as maxReplicas":           many("spec.minReplicas", int64(5), "spec.maxReplicas", int64(5)),
		"maxReplicas 0":                        many("spec.maxReplicas", int64(0)),
		"maxPendingReplicas 1":                 many("spec.maxPendingReplicas", int64(1)),
		"maxPendingReplicas above maxReplicas": many("spec.maxPendingReplicas", int64(9), "spec.maxReplicas", int64(5)),
		"spareReplicas as maxReplicas":         many("spec.spareReplicas", int64(5), "spec.maxReplicas", int64(5)),
		"spareReplicas with maxReplicas 0":     many("spec.spareReplicas", int64(5), "spec.maxReplicas", int64(0)),
		"spareReplicas with Eager":             many("spec.spareReplicas", int64(1), "spec.scalingStrategy", map[string]any{"type": "Eager"}),
		"spareReplicas 0 with Accurate":        many("spec.spareReplicas", int64(0), "spec.scalingStrategy", map[string]any{"type": "Accurate"}),
		"maxWaitSeconds":                       many("spec.activationThreshold", int64(5), "spec.maxWaitSeconds", int64(60)),
		"maxReplicas 0 with minReplicas":       many("spec.minReplicas", int64(5), "spec.maxReplicas", int64(0)),
		"minReplicas as the default maximum":   many("spec.minReplicas", int64(100)),
		"largest maxReplicas":                  many("spec.maxReplicas", int64(math.MaxInt32)),
		"shortest polling":                     many("spec.pollingIntervalSeconds", int64(1)),
		"longest polling":                      many("spec.pollingIntervalSeconds", int64(3600)),
		"notifications Enabled":                many("spec.notifications", "Enabled"),
		"notifications Disabled":               many("spec.notifications", "Disabled"),
		"no history":                           many("spec.successfulJobsHistoryLimit", int64(0), "spec.failedJobsHistoryLimit", int64(0)),
		"suspend":                              many("spec.suspend", true),
		"restartPolicy Never":                  many("spec.jobTemplate.spec.template.spec.restartPolicy", "Never"),
		"restartPolicy OnFailure":              many("spec.jobTemplate.spec.template.spec.restartPolicy", "OnFailure"),
		"label of the Job":                     many("spec.jobTemplate.metadata.labels", key("app.kubernetes.io/managed-by")),
		"annotation of the Job":                many("spec.jobTemplate.metadata.annotations", key("miracle.dev/note")),
		"key that only begins like a reserved": many("spec.jobTemplate.metadata.labels", key("batch.miracle.dev.example/a")),
		"key that only ends like a reserved":   many("spec.jobTemplate.spec.template.metadata.annotations", key("my.batch.miracle.dev/a")),
		"name of 63 characters":                many("metadata.name", strings.Repeat("n", 63)),
		"name with dots":                       many("metadata.name", "emails.v1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			g.Expect(try(t.Context(), newClient(g), object(g, values...))).To(Succeed())
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	const reserved = "under batch.miracle.dev/ are reserved"
	for name, c := range map[string]struct {
		values       []value
		field, words string
	}{
		"empty queueName":                     {many("spec.queueName", ""), "spec.queueName", "at least 1 chars long"},
		"queueName of 1,025 bytes":            {many("spec.queueName", strings.Repeat("q", 1025)), "spec.queueName", "1024"},
		"queueName of 1,024 times 2 bytes":    {many("spec.queueName", strings.Repeat("ä", 1024)), "spec.queueName", "at most 1024 bytes"},
		"queueName of 1,025 bytes in all":     {many("spec.queueName", strings.Repeat("ä", 512)+"q"), "spec.queueName", "at most 1024 bytes"},
		"no redisAddress":                     {many("spec.redisAddress", nil), "spec.redisAddress", "exactly one of redisAddress and redis is required"},
		"no threshold":                        {many("spec.threshold", nil), "spec.threshold", "Required value"},
		"threshold 0":                         {many("spec.threshold", int64(0)), "spec.threshold", "greater than or equal to 1"},
		"negative threshold":                  {many("spec.threshold", int64(-1)), "spec.threshold", "greater than or equal to 1"},
		"threshold as text":                   {many("spec.threshold", "10"), "spec.threshold", "must be of type integer"},
		"negative activationThreshold":        {many("spec.activationThreshold", int64(-1)), "spec.activationThreshold", "greater than or equal to 0"},
		"negative minReplicas":                {many("spec.minReplicas", int64(-1)), "spec.minReplicas", "greater than or equal to 0"},
		"negative maxReplicas":                {many("spec.maxReplicas", int64(-1)), "spec.maxReplicas", "greater than or equal to 0"},
		"maxReplicas of more than 32 bits":    {many("spec.maxReplicas", int64(math.MaxInt32+1)), "spec.maxReplicas", "less than or equal to 2147483647"},
		"maxPendingReplicas 0":                {many("spec.maxPendingReplicas", int64(0)), "spec.maxPendingReplicas", "greater than or equal to 1"},
		"negative spareReplicas":              {many("spec.spareReplicas", int64(-1)), "spec.spareReplicas", "greater than or equal to 0"},
		"spareReplicas above maxReplicas":     {many("spec.spareReplicas", int64(6), "spec.maxReplicas", int64(5)), "spec.spareReplicas", "must not be larger than maxReplicas"},
		"spareReplicas above the default":     {many("spec.spareReplicas", int64(101)), "spec.spareReplicas", "must not be larger than maxReplicas"},
		"spareReplicas with Accurate":         {many("spec.spareReplicas", int64(1), "spec.scalingStrategy", map[string]any{"type": "Accurate"}), "spec.spareReplicas", "use Default"},
		"spareReplicas with Custom":           {many("spec.spareReplicas", int64(1), "spec.scalingStrategy", map[string]any{"type": "Custom", "custom": map[string]any{}}), "spec.spareReplicas", "use Default"},
		"maxWaitSeconds 0":                    {many("spec.activationThreshold", int64(5), "spec.maxWaitSeconds", int64(0)), "spec.maxWaitSeconds", "greater than or equal to 1"},
		"maxWaitSeconds above a day":          {many("spec.activationThreshold", int64(5), "spec.maxWaitSeconds", int64(86401)), "spec.maxWaitSeconds", "less than or equal to 86400"},
		"maxWaitSeconds without a threshold":  {many("spec.maxWaitSeconds", int64(60)), "spec.maxWaitSeconds", "requires an activationThreshold"},
		"maxWaitSeconds with threshold 0":     {many("spec.activationThreshold", int64(0), "spec.maxWaitSeconds", int64(60)), "spec.maxWaitSeconds", "requires an activationThreshold"},
		"minReplicas above maxReplicas":       {many("spec.minReplicas", int64(6), "spec.maxReplicas", int64(5)), "spec.minReplicas", "must not be larger than maxReplicas"},
		"minReplicas above the default":       {many("spec.minReplicas", int64(101)), "spec.minReplicas", "must not be larger than maxReplicas"},
		"pollingIntervalSeconds 0":            {many("spec.pollingIntervalSeconds", int64(0)), "spec.pollingIntervalSeconds", "greater than or equal to 1"},
		"pollingIntervalSeconds 3601":         {many("spec.pollingIntervalSeconds", int64(3601)), "spec.pollingIntervalSeconds", "less than or equal to 3600"},
		"unknown notifications":               {many("spec.notifications", "enabled"), "spec.notifications", "Enabled"},
		"negative successfulJobsHistoryLimit": {many("spec.successfulJobsHistoryLimit", int64(-1)), "spec.successfulJobsHistoryLimit", "greater than or equal to 0"},
		"negative failedJobsHistoryLimit":     {many("spec.failedJobsHistoryLimit", int64(-1)), "spec.failedJobsHistoryLimit", "greater than or equal to 0"},
		"no jobTemplate":                      {many("spec.jobTemplate", nil), "spec.jobTemplate", "Required value"},
		"no spec":                             {many("spec", nil), "spec", "Required value"},
		"restartPolicy Always": {
			many("spec.jobTemplate.spec.template.spec.restartPolicy", "Always"),
			"spec.jobTemplate.spec.template.spec.restartPolicy", "must be Never or OnFailure",
		},
		"selector": {
			many("spec.jobTemplate.spec.selector.matchLabels", key("app")), "spec.jobTemplate.spec.selector", "selector must not be set",
		},
		"manualSelector": {
			many("spec.jobTemplate.spec.manualSelector", true), "spec.jobTemplate.spec.manualSelector", "manualSelector must not be true",
		},
		"reserved label of the Job": {
			many("spec.jobTemplate.metadata.labels", key("batch.miracle.dev/scaledjob")), "spec.jobTemplate.metadata", reserved,
		},
		"reserved annotation of the Job": {
			many("spec.jobTemplate.metadata.annotations", key("batch.miracle.dev/ordinal")), "spec.jobTemplate.metadata", reserved,
		},
		"reserved label of the Pod": {
			many("spec.jobTemplate.spec.template.metadata.labels", key("batch.miracle.dev/anything")),
			"spec.jobTemplate.spec.template.metadata", reserved,
		},
		"reserved annotation of the Pod": {
			many("spec.jobTemplate.spec.template.metadata.annotations", key("batch.miracle.dev/anything")),
			"spec.jobTemplate.spec.template.metadata", reserved,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			expectRefused(g, try(t.Context(), newClient(g), object(g, c.values...)), c.field, c.words)
		})
	}
}

// A rule for the whole object has no field to point to, so that its words must.
func TestLongNameRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	err := try(t.Context(), newClient(g), object(g, at("metadata.name", strings.Repeat("n", 64))))
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring("metadata.name must be at most 63 characters long")))
}

func TestRedisAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		addresses []string
		accepted  bool
	}{
		"name and port": {[]string{
			"redis:6379", "r:1", "redis.mail.svc.cluster.local:65535", "redis.mail.svc.:6379", "Redis-1:06379", "127.redis:6379",
		}, true},
		"name with underscores": {[]string{"my_redis:6379", "my_redis.mail_1:6379", "redis_:6379"}, true},
		"IPv4":                  {[]string{"10.0.0.1:6379", "0.0.0.0:1"}, true},
		"IPv6":                  {[]string{"[::1]:6379", "[2001:DB8::1]:6379", "[::ffff:10.0.0.1]:6379"}, true},
		"empty":                 {[]string{""}, false},
		"no host":               {[]string{":6379", ".:6379", "-:6379"}, false},
		"no port":               {[]string{"redis", "redis:", "10.0.0.1", "[::1]", "[::1]:"}, false},
		"port out of range":     {[]string{"redis:0", "redis:65536", "redis:99999", "redis:100000", "redis:-1", "[::1]:0"}, false},
		"port is no number":     {[]string{"redis:redis", "redis:63.79", "redis:0x18eb", "redis:６３７９"}, false},
		"scheme":                {[]string{"redis://redis:6379", "rediss://redis:6379", "unix:///redis.sock", "//redis:6379"}, false},
		"path":                  {[]string{"redis:6379/", "redis:6379/0", "redis/0:6379", "/var/run/redis.sock", "/redis:6379"}, false},
		"credentials":           {[]string{"user:secret@redis:6379", ":secret@redis:6379"}, false},
		"spaces":                {[]string{" redis:6379", "redis:6379 ", "redis :6379", "redis: 6379", "redis:6379\n", "redis-1:6379\nredis-2:6379", "\tredis:6379"}, false},
		"brackets":              {[]string{"::1:6379", "[::1:6379", "::1]:6379", "[]:6379", "[redis]:6379", "[fe80::1%eth0]:6379", "[[::1]]:6379"}, false},
		"several":               {[]string{"redis-1:6379,redis-2:6379", "redis-1:6379 redis-2:6379"}, false},
		"other characters":      {[]string{"rédis:6379", "redis?:6379", "redis\x00:6379", "redis:6379?db=1", "redis#:6379"}, false},
		"too long":              {[]string{strings.Repeat("r", 257) + ":6379"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			api := newClient(g)
			for _, address := range c.addresses {
				err := try(t.Context(), api, object(g, at("spec.redisAddress", address)))
				inList := try(t.Context(), api, object(g, redis(map[string]any{"addresses": []any{address}})...))
				if !c.accepted {
					g.Expect(err).To(HaveOccurred(), "%q", address)
					expectRefused(g, err, "spec.redisAddress", "spec.redisAddress: ")
					g.Expect(inList).To(HaveOccurred(), "%q", address)
					expectRefused(g, inList, "spec.redis.addresses[0]", "spec.redis.addresses[0]: ")
					continue
				}
				g.Expect(inList).NotTo(HaveOccurred(), "%q", address)
				g.Expect(err).NotTo(HaveOccurred(), "%q", address)
				_, err = auth.ParseEndpoint(address)
				g.Expect(err).NotTo(HaveOccurred(), "the operator can't use %q, which is accepted", address)
			}
		})
	}
}

// Whoever gets the form wrong is told the right one.
func TestRedisAddressMessage(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	err := try(t.Context(), newClient(g), object(g, at("spec.redisAddress", "redis://redis:6379")))
	expectRefused(g, err, "spec.redisAddress", "must be host:port, such as redis.example.svc:6379, without a scheme or path")
}

// A field that nobody knows is most often one that is misspelt. Ignored, it would do nothing without a word.
func TestUnknownFieldsRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"spec.queuename", "spec.jobTemplate.spec.backOffLimit", "spec.jobTemplate.metadata.createdAt", "typo"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			err := try(t.Context(), newClient(g), object(g, at(path, "value")))
			g.Expect(err).To(MatchError(ContainSubstring(`strict decoding error: unknown field "` + path + `"`)))
		})
	}
}

// An edit is held to the same rules as a creation.
func TestUpdateRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	api := newClient(g)
	stored := object(g, at("metadata.name", "to-be-edited"))
	g.Expect(api.Create(t.Context(), stored)).To(Succeed())

	g.Expect(unstructured.SetNestedField(stored.Object, int64(0), "spec", "threshold")).To(Succeed())
	expectRefused(g, api.Update(t.Context(), stored), "spec.threshold", "greater than or equal to 1")
}
