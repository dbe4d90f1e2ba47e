// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// redis are the metrics of Redis servers, which are labelled by their address.
type redis struct {
	up         *prometheus.GaugeVec
	received   *prometheus.CounterVec
	reconnects *prometheus.CounterVec
}

func newRedis() redis {
	const endpoint = "endpoint"
	return redis{
		up:       gauge("scaledjob_watcher_up", "1 while the subscription to the server's notifications stands, 0 while it does not.", endpoint),
		received: counter("scaledjob_notifications_received_total", "Keyspace notifications received.", endpoint),
		reconnects: counter("scaledjob_redis_reconnects_total",
			"Subscriptions that ended, and attempts at one that failed, by the reason.", endpoint, "reason"),
	}
}

func (r *redis) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.up, r.received, r.reconnects}
}

// Received counts a keyspace notification of a server.
func (m *Metrics) Received(endpoint string) { m.redis.received.WithLabelValues(endpoint).Inc() }

// Subscribed says whether the subscription to a server's notifications stands.
func (m *Metrics) Subscribed(endpoint string, stands bool) {
	m.redis.up.WithLabelValues(endpoint).Set(indicator(stands))
}

// Ended counts a subscription, or an attempt at one, that came to an end for a reason.
func (m *Metrics) Ended(endpoint, reason string) {
	m.redis.reconnects.WithLabelValues(endpoint, reason).Inc()
}

// Left removes the series of a server.
func (m *Metrics) Left(endpoint string) {
	match := prometheus.Labels{"endpoint": endpoint}
	m.redis.up.Delete(match)
	m.redis.received.Delete(match)
	m.redis.reconnects.DeletePartialMatch(match)
}
