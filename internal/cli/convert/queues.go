// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// maxQueues is the number of keys that a ScaledJob may name.
const maxQueues = 16

// source is what a trigger counts.
type source struct {
	queue      scaledjobv1.Queue
	activation int64
	// atName and atThreshold are the comments at the key and at its threshold.
	atName, atThreshold string
}

// convertTriggers converts the triggers. It returns false if none of them reads Redis.
func (c *conversion) convertTriggers() bool {
	var redis *scaledjobv1.Redis
	var sources []source
	for i := range c.from.Spec.Triggers {
		from := &c.from.Spec.Triggers[i]
		mode, stream, is := from.isRedis()
		if !is {
			c.skip(index("spec.triggers", i), fmt.Sprintf("A trigger of type %s does not read Redis lists or streams. Keep it with KEDA, in "+
				"a ScaledJob of its own.", from.Type))
			continue
		}
		p := c.parametersOf(i, from)
		server := c.server(p, mode)
		if redis != nil && !reflect.DeepEqual(redis, server) {
			c.skip(p.path, "It reads another Redis server or database, or signs in differently. Write a ScaledJob of its own for it.")
			continue
		}
		redis = server
		found, ok := c.source(p, stream)
		if ok && c.isNew(p, sources, found) {
			sources = append(sources, found)
		}
		c.checkTrigger(p, from)
	}
	if redis == nil || len(sources) == 0 {
		c.skip("spec.triggers", "There is no key of Redis to read, so nothing was converted.")
		return false
	}
	c.setServer(redis)
	c.setQueues(sources)
	return true
}

// isNew reports whether no other source counts the same messages.
func (c *conversion) isNew(p *parameters, sources []source, found source) bool {
	twice := slices.ContainsFunc(sources, func(other source) bool {
		same := other.queue.Stream == nil || found.queue.Stream == nil || *other.queue.Stream == *found.queue.Stream
		return other.queue.Name == found.queue.Name && same
	})
	switch {
	case twice:
		c.skip(p.path, "An earlier trigger reads the same key, and no message may count twice.")
	case len(sources) == maxQueues:
		c.skip(p.path, fmt.Sprintf("A ScaledJob may name up to %d keys.", maxQueues))
	default:
		return true
	}
	return false
}

// checkTrigger notes what KEDA ignores, or refuses, in a trigger.
func (c *conversion) checkTrigger(p *parameters, from *trigger) {
	for _, key := range p.unknown() {
		c.skip(p.path+".metadata."+key, "A trigger of type "+from.Type+" does not have this parameter. See whether you need it.")
	}
	if from.MetricType != "" && from.MetricType != "AverageValue" {
		c.skip(p.path+".metricType", "KEDA refuses this type for a ScaledJob.")
	}
}

// source returns what a trigger counts; false if it names no key.
func (c *conversion) source(p *parameters, stream bool) (source, bool) {
	if stream {
		return c.stream(p)
	}
	found := source{
		queue:  scaledjobv1.Queue{Name: p.metadataOnly("listName")},
		atName: "KEDA looks up the type of this key. If it is not a list, write its type: SortedSet, Set or Hash.",
	}
	threshold := c.threshold(p, "listLength", &found)
	found.queue.Threshold = &threshold
	found.activation = c.number(p, "activationListLength", 0)
	if found.queue.Name == "" {
		c.skip(p.path+".metadata.listName", "The name of the key is missing. Write it in spec.queues.")
	}
	return found, found.queue.Name != ""
}

// stream returns what a trigger counts in a stream.
func (c *conversion) stream(p *parameters) (source, bool) {
	found := source{queue: scaledjobv1.Queue{Name: p.metadataOnly("stream"), Type: scaledjobv1.QueueStream}}
	group := p.metadataOnly("consumerGroup")
	lag, pending, length := p.metadataOnly("lagCount"), "pendingEntriesCount", "streamLength"
	p.used = append(p.used, pending, length)
	var threshold int64
	switch {
	case group == "":
		threshold = c.threshold(p, length, &found)
	case lag == "" || lag == "0":
		threshold = c.threshold(p, pending, &found)
		found.atName = "KEDA counts only entries that are pending in the group. Here those that no worker has read count too."
		if c.countsOnlyWaiting() {
			found.atName = "KEDA counts only entries that are pending in the group, and here only those count that no worker has read."
		}
	default:
		threshold = c.threshold(p, "lagCount", &found)
		if !c.countsOnlyWaiting() {
			found.atName = "KEDA counts only entries that no worker has read. Here those that are pending in the group count too."
		}
	}
	found.queue.Threshold = &threshold
	if group != "" {
		found.queue.Stream = &scaledjobv1.StreamQueue{ConsumerGroup: group}
	}
	found.activation = c.number(p, "activationLagCount", 0)
	if found.queue.Name == "" {
		c.skip(p.path+".metadata.stream", "The name of the stream is missing. Write it in spec.queues.")
	}
	return found, found.queue.Name != ""
}

// threshold returns the number of messages per Job.
func (c *conversion) threshold(p *parameters, name string, found *source) int64 {
	if p.metadataOnly(name) == "" {
		found.atThreshold = fmt.Sprintf("KEDA's default for %s, which the trigger does not set.", name)
	}
	number := c.number(p, name, kedaTarget)
	if number >= 1 {
		return number
	}
	c.skip(p.path+".metadata."+name, "KEDA never creates a Job with this number. Write the number of messages per Job in spec.threshold.")
	found.atThreshold = "KEDA has no valid number here, and creates no Jobs."
	return 1
}

// number returns a whole number of the metadata.
func (c *conversion) number(p *parameters, name string, otherwise int64) int64 {
	text := p.metadataOnly(name)
	if text == "" {
		return otherwise
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 0 {
		c.skip(p.path+".metadata."+name, "It is not a whole number of 0 or more. Correct it.")
		return otherwise
	}
	return number
}

// setServer writes the server in its shortest form.
func (c *conversion) setServer(redis *scaledjobv1.Redis) {
	plain := redis.Mode == scaledjobv1.RedisStandalone && redis.Database == 0 && redis.Auth == nil && redis.TLS == nil
	if plain && len(redis.Addresses) == 1 {
		c.to.RedisAddress = redis.Addresses[0]
		c.comments["redisAddress"] = c.comments["redis.addresses"]
		return
	}
	if redis.Mode == scaledjobv1.RedisStandalone {
		redis.Mode = ""
	}
	c.to.Redis = redis
}

// setQueues writes the queues. One list is written in the short form.
func (c *conversion) setQueues(sources []source) {
	c.to.Threshold = *sources[0].queue.Threshold
	c.setActivation(sources)
	if len(sources) == 1 {
		if text := sources[0].atThreshold; text != "" {
			c.comment("threshold", text)
		}
		if only := sources[0].queue; only.Type == "" {
			c.to.QueueName = only.Name
			c.comment("queueName", sources[0].atName+" Then use spec.queues instead of queueName.")
			return
		}
	}
	same := !slices.ContainsFunc(sources, func(each source) bool { return *each.queue.Threshold != c.to.Threshold })
	for i, each := range sources {
		path := index("queues", i)
		if each.atName != "" {
			c.comment(path, each.atName)
		}
		if same {
			each.queue.Threshold = nil
		}
		if each.atThreshold != "" && !same {
			c.comment(path+".threshold", each.atThreshold)
		}
		c.to.Queues = append(c.to.Queues, each.queue)
	}
	if same && sources[0].atThreshold != "" {
		c.comment("threshold", sources[0].atThreshold)
	}
	c.setCalculation(len(sources))
}

// setActivation writes the lowest of the thresholds, so that no queue gets its Jobs later than with KEDA.
func (c *conversion) setActivation(sources []source) {
	lowest := sources[0].activation
	for _, each := range sources {
		lowest = min(lowest, each.activation)
	}
	c.to.ActivationThreshold = lowest
	higher := slices.ContainsFunc(sources, func(each source) bool { return each.activation > 0 })
	if len(sources) > 1 && higher {
		at := "activationThreshold"
		if lowest == 0 {
			at = "threshold"
		}
		c.comment(at, "KEDA has an activation threshold for each trigger. Here activationThreshold is one for all queues together, and "+
			"the lowest of KEDA's was taken.")
	}
}

// setCalculation writes how several queues are combined.
func (c *conversion) setCalculation(queues int) {
	given := c.from.Spec.ScalingStrategy.MultipleScalersCalculation
	if queues < 2 {
		return
	}
	switch given {
	case "", "max":
		c.to.QueuesCalculation = scaledjobv1.CalculateMax
	case "min":
		c.to.QueuesCalculation = scaledjobv1.CalculateMin
	case "avg":
		c.to.QueuesCalculation = scaledjobv1.CalculateAvg
	case "sum":
		c.to.QueuesCalculation = scaledjobv1.CalculateSum
	default:
		c.skip("spec.scalingStrategy.multipleScalersCalculation", "KEDA does not have this calculation. Write Sum, Max, Min or Avg in "+
			"spec.queuesCalculation.")
		return
	}
	if given != "sum" {
		c.comment("queuesCalculation", "KEDA compares the lengths of the queues. Here the Jobs that are due for each queue are compared.")
	}
}
