// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
)

// seeKeys runs the commands of all keys, as the operator does. That proves more than ACL DRYRUN, which the user of the
// operator may not run anyway.
func (l *look) seeKeys(ctx context.Context, first *session) {
	for i := range l.Keys {
		l.facts.Keys = append(l.facts.Keys, l.seeKey(ctx, first, &l.Keys[i]))
	}
}

// seeKey runs the commands of a key on the server that has it.
func (l *look) seeKey(ctx context.Context, s *session, key *Key) KeyState {
	is := KeyState{Name: key.Name}
	if owner := l.ownerOf(ctx, s, key); owner != nil {
		defer owner.close()
		s, is.Server = owner, &owner.Server
	}
	if s.Reached() {
		s.see(ctx, key, &is)
	}
	return is
}

// see runs the commands of a key.
func (s *session) see(ctx context.Context, key *Key, is *KeyState) {
	for i, command := range key.Commands {
		reply, err := s.do(ctx, command.Args...)
		is.note(command.Grant, err)
		if n, isNumber := reply.(int64); isNumber && i == 0 {
			is.Depth = &n
		}
	}
	if !key.Together || len(key.Commands) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	_, err := s.client.TxPipelined(ctx, func(transaction goredis.Pipeliner) error {
		return transaction.Do(ctx, key.Commands[0].Args...).Err()
	})
	if len(is.Denied) == 0 && !is.WrongType {
		is.note("+multi +exec", err)
	}
}

// note notes a refusal. What else a server answers to a key or a group that does not exist is no fault.
func (k *KeyState) note(grant string, err error) {
	if err == nil || errors.Is(err, goredis.Nil) {
		return
	}
	switch is := refusal(err); is.Reason {
	case failure.ReasonWrongType:
		k.WrongType = true
	case failure.ReasonPermissionDenied:
		k.Refused = is
		if !slices.Contains(k.Denied, grant) {
			k.Denied = append(k.Denied, grant)
		}
	}
}

// seeChanges finds out how the server reports changes.
func (l *look) seeChanges(ctx context.Context, s *session) Changes {
	var is Changes
	if events, err := s.setting(ctx, "notify-keyspace-events"); err == nil {
		is.Events = events
	}
	if len(l.Channels) > 0 {
		is.Subscribed = s.subscribe(ctx, l.Channels)
	}
	if l.Tracking {
		conn := s.client.Conn()
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		if err := conn.Do(ctx, "CLIENT", "TRACKING", "ON").Err(); err != nil {
			is.Tracked = refusal(err)
		} else {
			_ = conn.Do(ctx, "CLIENT", "TRACKING", "OFF").Err() // The connection goes back to the pool.
		}
	}
	return is
}

// setting reads a setting of the server; nil if it has none of this name.
func (s *session) setting(ctx context.Context, name string) (*string, error) {
	reply, err := s.do(ctx, "CONFIG", "GET", name)
	if err != nil {
		return nil, err
	}
	switch all := reply.(type) {
	case map[any]any:
		for key, value := range all {
			if is, isText := value.(string); isText && key == any(name) {
				return &is, nil
			}
		}
	case []any:
		if len(all) == 2 {
			if is, isText := all[1].(string); isText {
				return &is, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // There is none.
}

// subscribe subscribes to the channels for a moment. It returns nil if that is allowed.
func (s *session) subscribe(ctx context.Context, channels []string) *failure.Error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	subscription := s.client.Subscribe(ctx, channels...)
	defer func() { _ = subscription.Close() }()
	for range channels {
		if _, err := subscription.ReceiveTimeout(ctx, stepTimeout); err != nil {
			return refusal(err)
		}
	}
	return nil
}

// movedTo returns the address in the reply of a node that another node has a key; empty if the error is none.
func movedTo(err error) string {
	reply, isReply := errors.AsType[goredis.Error](err)
	if !isReply || !strings.HasPrefix(reply.Error(), "MOVED ") {
		return ""
	}
	words := strings.Fields(reply.Error())
	return words[len(words)-1]
}
