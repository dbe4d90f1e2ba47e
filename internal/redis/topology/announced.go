// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"strconv"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// longestShown is how much of an address is shown. It is long enough for the name of a Pod in its Service.
const longestShown = 128

// About returns the error of a read from a server of a deployment; nil if there is none. If the server cannot be used,
// and only the deployment has named it, the error says that.
func (d *Directory) About(e, server auth.Endpoint, err error) error {
	if w := d.watcher(e); w != nil {
		return w.about(server, err)
	}
	return err
}

func (w *watcher) about(server auth.Endpoint, err error) error {
	cause := failure.Classify(err)
	if cause == nil || w.isConfigured(server.Address) || !outOfReach(cause) {
		return err
	}
	return w.announced(server, cause, err)
}

// outOfReach reports whether an error means that a server cannot be used, perhaps because its address is wrong.
func outOfReach(cause *failure.Error) bool {
	if failure.IsReply(cause.Err) && cause.Reason != failure.ReasonAuthFailed {
		return false
	}
	for _, other := range []error{failure.ErrNotMaster, failure.ErrClosed, resp.ErrTooLarge} {
		if errors.Is(cause.Err, other) {
			return false
		}
	}
	switch cause.Reason {
	case failure.ReasonUnreachable, failure.ReasonDialDenied, failure.ReasonTLSFailed, failure.ReasonAuthFailed:
		return !cause.Busy()
	}
	return false
}

// announced returns the error for a server that cannot be used and that the user does not name.
func (w *watcher) announced(server auth.Endpoint, cause *failure.Error, err error) *failure.Error {
	who, what, check := "The nodes of the Redis Cluster", "a node", "cluster-announce-ip, cluster-announce-hostname and cluster-announce-port of the nodes"
	if w.endpoint.Mode == auth.ModeSentinel {
		who, what = "The sentinels", "the "+server.Role.String()
		check = "replica-announce-ip and replica-announce-port of the Redis servers, and sentinel monitor and sentinel resolve-hostnames of the sentinels"
		if server.Role == auth.RoleSentinel {
			what = "a sentinel"
		}
	}
	return &failure.Error{
		Reason: cause.Reason,
		Message: who + ", asked at " + strconv.Quote(w.polledAt()) + ", announce " + what + " at " + strconv.Quote(w.shown(server.Address)) +
			". The operator cannot use this address, which is not in spec.redis.addresses. " + cause.Message +
			" If it is the right address, check the server and the network policies towards it. If it is not, correct " + check + ".",
		Err: err,
	}
}

// shown returns an address for a message. A hostile server may announce anything that looks like a name, also a
// password that it was given.
func (w *watcher) shown(address string) string {
	address = w.withoutPassword(address)
	if len(address) > longestShown {
		return address[:longestShown] + "…"
	}
	return address
}

// withoutPassword returns a text, unless it contains a password of the namespace in upper or lower case.
func (w *watcher) withoutPassword(text string) string {
	if w.pool.ContainsPassword(w.endpoint.Namespace, text) {
		return "[redacted]"
	}
	return text
}

// polledAt returns the address at which the deployment is polled, for messages: one that the user has written, and the
// same one while it responds.
func (w *watcher) polledAt() string {
	if by := w.answering.Load(); by != nil {
		return *by
	}
	return w.endpoint.Addresses()[0]
}

// recordAnswering records which of the addresses that the user has written responds.
func (w *watcher) recordAnswering(believed []response) {
	before := w.polledAt()
	first := ""
	for _, each := range believed {
		if each.from == before {
			return
		}
		if first == "" && w.isConfigured(each.from) {
			first = each.from
		}
	}
	if first != "" {
		w.answering.Store(&first)
	}
}
