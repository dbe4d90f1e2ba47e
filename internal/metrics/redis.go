// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// redis are the metrics of Redis servers, with their address as the label.
type redis struct {
	up, tracking                      *prometheus.GaugeVec
	received, invalidated, reconnects *prometheus.CounterVec
}

func newRedis() redis {
	const endpoint, database = "endpoint", "database"
	return redis{
		up: gauge("scaledjob_watcher_up",
			"1 while the operator is subscribed to notifications of a database of the server, 0 while it is not. It stays 0 where keys are tracked instead.", endpoint, database),
		received: counter("scaledjob_notifications_received_total", "Keyspace notifications received.", endpoint),
		tracking: gauge("scaledjob_tracking_up",
			"1 while the server tracks keys of a database for the operator, 0 while the operator fails to have them tracked. Absent while "+
				"notifications work.", endpoint, database),
		invalidated: counter("scaledjob_invalidations_received_total", "Messages about changed keys that the server tracks.", endpoint),
		reconnects: counter("scaledjob_redis_reconnects_total",
			"Connections for notifications and tracking that were lost, or could not be made, by reason.", endpoint, "reason"),
	}
}

func (r *redis) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.up, r.tracking, r.received, r.invalidated, r.reconnects}
}

// redisConnections collects how many connections there are to each server, when it is asked.
type redisConnections struct{ of *Metrics }

var connectionsDesc = prometheus.NewDesc("scaledjob_redis_connections",
	"Connections to the server, or to the servers of a Redis deployment together, that are open or being made.", []string{"endpoint"}, nil)

// Describe implements [prometheus.Collector].
func (redisConnections) Describe(descs chan<- *prometheus.Desc) { descs <- connectionsDesc }

// Collect implements [prometheus.Collector].
func (c redisConnections) Collect(metrics chan<- prometheus.Metric) {
	if c.of.connections == nil {
		return
	}
	for endpoint, open := range c.of.connections() {
		metrics <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(open), endpoint)
	}
}

// Connections has open asked for the number of connections to each server. It must be called before the first scrape.
func (m *Metrics) Connections(open func() map[string]int) { m.connections = open }

// Received returns a function that counts a keyspace notification of a server. The series exists from then on, until
// [Metrics.Left].
func (m *Metrics) Received(endpoint string) (count func()) {
	return m.redis.received.WithLabelValues(endpoint).Inc
}

// Subscribed sets whether the operator is subscribed to notifications of a database.
func (m *Metrics) Subscribed(endpoint string, database int, subscribed bool) {
	m.redis.up.WithLabelValues(endpoint, strconv.Itoa(database)).Set(indicator(subscribed))
}

// Unsubscribed removes the series of a database whose notifications are not wanted any longer.
func (m *Metrics) Unsubscribed(endpoint string, database int) {
	m.redis.up.DeleteLabelValues(endpoint, strconv.Itoa(database))
}

// Invalidated returns a function that counts a message of a server about tracked keys. The series exists from then on,
// until [Metrics.Left].
func (m *Metrics) Invalidated(endpoint string) (count func()) {
	return m.redis.invalidated.WithLabelValues(endpoint).Inc
}

// Tracked sets whether a server tracks keys of a database.
func (m *Metrics) Tracked(endpoint string, database int, tracked bool) {
	m.redis.tracking.WithLabelValues(endpoint, strconv.Itoa(database)).Set(indicator(tracked))
}

// Untracked removes the series of a database whose keys are not to be tracked any longer.
func (m *Metrics) Untracked(endpoint string, database int) {
	m.redis.tracking.DeleteLabelValues(endpoint, strconv.Itoa(database))
}

// Ended counts a subscription or a tracking that ended, or a failed attempt to begin one, with its reason.
func (m *Metrics) Ended(endpoint, reason string) {
	m.redis.reconnects.WithLabelValues(endpoint, reason).Inc()
}

// Left removes the series of a server that is no longer in use.
func (m *Metrics) Left(endpoint string) {
	match := prometheus.Labels{"endpoint": endpoint}
	m.redis.up.DeletePartialMatch(match)
	m.redis.received.Delete(match)
	m.redis.invalidated.Delete(match)
	m.redis.tracking.DeletePartialMatch(match)
	m.redis.reconnects.DeletePartialMatch(match)
}
