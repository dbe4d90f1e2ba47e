// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/resp"
)

// longestShown is how much of an address is shown. It is long enough for the name of a Pod in its Service.
const longestShown = 128

// About returns the error of a read from a server of a deployment. If the server cannot be used, and only the deployment
// has named it, the error says that, and the first one is logged. Otherwise it is the same error. Call it after each
// read: nil says that the server can be used.
func (d *Directory) About(e, server auth.Endpoint, err error) error {
	f := d.follower(e)
	if f == nil || f.names(server.Address) {
		return err
	}
	return f.about(server, err)
}

func (f *follower) about(server auth.Endpoint, err error) error {
	cause := failure.Classify(err)
	if cause == nil || failure.IsReply(cause.Err) && cause.Reason != failure.ReasonAuthFailed {
		f.reached(server.Address)
		return err
	}
	if !outOfReach(cause) {
		return err
	}
	if f.lost(server.Address) {
		f.log.Info("A server that only the Redis deployment names cannot be used", "server", f.shown(server.Address),
			"role", server.Role.String(), "namedBy", f.askedAt(), "reason", cause.Reason, "cause", f.withoutPassword(cause.Cause()))
	}
	return f.announced(server, cause, err)
}

// outOfReach reports whether an error means that a server cannot be used, perhaps because its address is wrong.
func outOfReach(cause *failure.Error) bool {
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
func (f *follower) announced(server auth.Endpoint, cause *failure.Error, err error) *failure.Error {
	who, what, check := "The nodes of the Redis Cluster", "a node", "cluster-announce-ip, cluster-announce-hostname and cluster-announce-port of the nodes"
	if f.endpoint.Mode == auth.ModeSentinel {
		who, what = "The sentinels", "the "+server.Role.String()
		check = "replica-announce-ip and replica-announce-port of the Redis servers, and sentinel monitor and sentinel resolve-hostnames of the sentinels"
		if server.Role == auth.RoleSentinel {
			what = "a sentinel"
		}
	}
	return &failure.Error{
		Reason: cause.Reason,
		Message: who + ", asked at " + strconv.Quote(f.askedAt()) + ", announce " + what + " at " + strconv.Quote(f.shown(server.Address)) +
			". The operator cannot use this address, which is not in spec.redis.addresses. " + cause.Message +
			" If it is the right address, check the server and the network policies towards it. If it is not, correct " + check + ".",
		Err: err,
	}
}

// shown returns an address for a message. A hostile server may announce anything that looks like a name, also a password
// that it was given.
func (f *follower) shown(address string) string {
	address = f.withoutPassword(address)
	if len(address) > longestShown {
		return address[:longestShown] + "…"
	}
	return address
}

// withoutPassword returns a text, unless it contains a password of the namespace in upper or lower case.
func (f *follower) withoutPassword(text string) string {
	if f.pool.ContainsPassword(f.endpoint.Namespace, text) {
		return "[redacted]"
	}
	return text
}

// askedAt returns the address at which the deployment was asked: one that the user has written, and as long as it answers
// the same one.
func (f *follower) askedAt() string {
	if by := f.witness.Load(); by != nil {
		return *by
	}
	return f.endpoint.Addresses()[0]
}

// attest keeps which of the addresses that the user has written answers.
func (f *follower) attest(believed []answer) {
	before := f.askedAt()
	first := ""
	for _, each := range believed {
		if each.from == before {
			return
		}
		if first == "" && f.names(each.from) {
			first = each.from
		}
	}
	if first != "" {
		f.witness.Store(&first)
	}
}

// lost records that a server cannot be used, and reports whether that is new.
func (f *follower) lost(address string) (isNew bool) {
	f.unusedMu.Lock()
	defer f.unusedMu.Unlock()
	isNew = !f.unused[address]
	if len(f.unused) < mostMasters {
		f.unused[address] = true
	}
	return isNew
}

// reached records that a server can be used.
func (f *follower) reached(address string) {
	f.unusedMu.Lock()
	defer f.unusedMu.Unlock()
	delete(f.unused, address)
}

// forgetUnused forgets the servers that are not announced any longer.
func (f *follower) forgetUnused(now *view) {
	f.unusedMu.Lock()
	defer f.unusedMu.Unlock()
	maps.DeleteFunc(f.unused, func(address string, _ bool) bool {
		return !slices.ContainsFunc(now.servers(), func(is auth.Endpoint) bool { return is.Address == address })
	})
}
