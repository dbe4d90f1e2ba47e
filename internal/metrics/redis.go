// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// redis are the metrics of Redis servers, with their address as the label.
type redis struct {
	up         *prometheus.GaugeVec
	received   *prometheus.CounterVec
	reconnects *prometheus.CounterVec
}

func newRedis() redis {
	const endpoint = "endpoint"
	return redis{
		up: gauge("scaledjob_watcher_up",
			"1 while the operator is subscribed to the server's notifications, 0 while it is not.", endpoint),
		received: counter("scaledjob_notifications_received_total", "Keyspace notifications received.", endpoint),
		reconnects: counter("scaledjob_redis_reconnects_total",
			"Subscriptions that ended, and failed attempts to subscribe, by reason.", endpoint, "reason"),
	}
}

func (r *redis) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.up, r.received, r.reconnects}
}

// Received counts a keyspace notification of a server.
func (m *Metrics) Received(endpoint string) { m.redis.received.WithLabelValues(endpoint).Inc() }

// Subscribed sets whether the operator is subscribed to a server's notifications.
func (m *Metrics) Subscribed(endpoint string, subscribed bool) {
	m.redis.up.WithLabelValues(endpoint).Set(indicator(subscribed))
}

// Ended counts a subscription that ended, or a failed attempt to subscribe, with its reason.
func (m *Metrics) Ended(endpoint, reason string) {
	m.redis.reconnects.WithLabelValues(endpoint, reason).Inc()
}

// Left removes the series of a server that is no longer in use.
func (m *Metrics) Left(endpoint string) {
	match := prometheus.Labels{"endpoint": endpoint}
	m.redis.up.Delete(match)
	m.redis.received.Delete(match)
	m.redis.reconnects.DeletePartialMatch(match)
}
