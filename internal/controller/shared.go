// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"

	"miracle.dev/scaledjob-operator/internal/queue"
	"miracle.dev/scaledjob-operator/internal/redis/auth"
	"miracle.dev/scaledjob-operator/internal/report"
)

// queueID identifies a queue that ScaledJobs of a namespace name. Credentials and TLS do not matter, nor what the
// messages in the queue count as.
type queueID struct {
	namespace  string
	address    string
	mode       auth.Mode
	masterName string
	database   int
	key, group string
	window     queue.Window
}

// queueIDs returns the IDs of the queues of the spec; none if the address of the server can't be used.
func queueIDs(t *target) []queueID {
	source := &t.spec.Source
	ids := make([]queueID, len(source.Queues))
	for i, each := range source.Queues {
		ids[i] = queueID{
			namespace: t.sj.Namespace,
			address:   source.Endpoint.Address, mode: source.Endpoint.Mode, database: source.Database,
			key: each.Key, group: each.Group, window: each.Window,
		}
		if source.Endpoint.Mode == auth.ModeSentinel {
			ids[i].masterName = source.Endpoint.Sentinels.Value().MasterName
		}
	}
	return ids
}

// share records which queues the ScaledJob names. For each new one that another ScaledJob of the namespace has named
// before, it returns an event. It says nothing about other namespaces: their users may not know of each other.
func (m *memories) share(t *target) (events []report.Event) {
	if t.mem.queues != nil && t.mem.named == t.sj.Generation {
		return nil
	}
	ids := queueIDs(t)
	t.mem.named = t.sj.Generation
	if slices.Equal(ids, t.mem.queues) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unshare(t.sj.Name, t.mem.queues)
	t.mem.queues = ids
	for _, id := range t.mem.queues {
		if others := m.named[id]; len(others) > 0 && others[0] != t.sj.Name {
			events = append(events, report.SharedQueue(id.key, others[0]))
		}
		if m.named == nil {
			m.named = map[queueID][]string{}
		}
		m.named[id] = append(m.named[id], t.sj.Name)
	}
	return events
}

// unname records that a ScaledJob names no queue.
func (m *memories) unname(name string, mem *memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unshare(name, mem.queues)
	mem.queues = nil
}

// unshare records that a ScaledJob names these queues no longer. The caller holds the lock.
func (m *memories) unshare(name string, ids []queueID) {
	for _, id := range ids {
		left := slices.DeleteFunc(m.named[id], func(each string) bool { return each == name })
		if len(left) == 0 {
			delete(m.named, id)
			continue
		}
		m.named[id] = left
	}
}
