// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
	"miracle.dev/scaledjob-operator/test/kit/cluster"
	"miracle.dev/scaledjob-operator/test/kit/operator"
	"miracle.dev/scaledjob-operator/test/kit/sjtest"
)

const (
	// keyLine is how long a line of a private key is, at least, that is searched for.
	keyLine = 40
	// telling is how long a part of a password is that nobody may tell.
	telling = 12
)

// knownSecrets are the secrets of all tests.
var knownSecrets secrets

// secrets are what must not be told. It is safe for concurrent use.
type secrets struct {
	mu      sync.Mutex
	needles map[string]string // what to search for, and what it is of
}

// password makes one, and has it searched for, and for every part that gives it away: what repeats it may cut it off,
// or into lines. It has characters that every encoding changes, around a core that only base64 does.
func (s *secrets) password() string {
	core := rand.Text()
	password := "<" + core + "&é\"'>"
	s.hide("a password", password, base64.RawStdEncoding.EncodeToString([]byte(password)))
	for i := range len(core) - telling + 1 {
		s.hide("a password", core[i:i+telling])
	}
	return password
}

// key has a private key in PEM searched for.
func (s *secrets) key(pem []byte) {
	for line := range strings.Lines(string(pem)) {
		if line = strings.TrimSpace(line); len(line) >= keyLine {
			s.hide("a private key", line)
		}
	}
	s.hide("a private key", base64.RawStdEncoding.EncodeToString(pem))
}

// hide has these forms of a secret searched for.
func (s *secrets) hide(what string, forms ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.needles == nil {
		s.needles = map[string]string{}
	}
	for _, form := range forms {
		s.needles[form] = what
	}
}

// search returns an error that says which kinds of secrets were shown, and where, but not the secrets.
func (s *secrets) search(told map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]bool{}
	for where, text := range told {
		for needle, what := range s.needles {
			if at := strings.Index(text, needle); at >= 0 {
				line := text[strings.LastIndexByte(text[:at], '\n')+1 : at]
				found[fmt.Sprintf("%s is told in the %s, after %.100q", what, where, line)] = true
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return errors.New(strings.Join(slices.Sorted(maps.Keys(found)), "\n"))
}

// evidence is what the operator has told to anybody, but for its log.
func (c *controlPlane) evidence(ctx context.Context) (map[string]string, error) {
	told := map[string]string{"statuses": c.statuses.all()}
	var errs []error
	for what, list := range map[string]client.ObjectList{
		"ScaledJobs": &scaledjobv1.ScaledJobList{}, "Jobs": &batchv1.JobList{},
		"events": &eventsv1.EventList{}, "core events": &corev1.EventList{},
	} {
		errs = append(errs, c.API.List(ctx, list))
		text, err := json.Marshal(list)
		told[what] = string(text)
		errs = append(errs, err)
	}
	metrics, err := operator.Get(ctx, c.operator.MetricsURL())
	told["metrics"] = metrics
	return told, errors.Join(append(errs, err)...)
}

// statusWatch keeps every status that any ScaledJob ever had. It lasts until the process ends.
type statusWatch struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func watchStatuses(ctx context.Context, admin client.WithWatch) (*statusWatch, error) {
	changes, err := admin.Watch(context.WithoutCancel(ctx), &scaledjobv1.ScaledJobList{})
	if err != nil {
		return nil, fmt.Errorf("watching ScaledJobs: %w", err)
	}
	w := &statusWatch{seen: map[string]struct{}{}}
	go func() {
		for change := range changes.ResultChan() {
			w.note(change)
		}
	}()
	return w, nil
}

func (w *statusWatch) note(change watch.Event) {
	object, isScaledJob := change.Object.(*scaledjobv1.ScaledJob)
	if !isScaledJob {
		return
	}
	text, err := json.Marshal(object.Status)
	if err != nil {
		text = []byte(err.Error())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[string(text)] = struct{}{}
}

func (w *statusWatch) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all strings.Builder
	for status := range w.seen {
		all.WriteString(status + "\n")
	}
	return all.String()
}

// controlPlane is a control plane without nodes, the operator in it, and the administrator's view of both.
type controlPlane struct {
	*sjtest.ControlPlane

	operator *operator.Operator
	// statuses are what the operator ever wrote into ScaledJobs.
	statuses *statusWatch
}

func newControlPlane(ctx context.Context) (*controlPlane, error) {
	started, err := sjtest.NewControlPlane(ctx, cluster.Options{Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	statuses, err := watchStatuses(ctx, started.API)
	if err != nil {
		return nil, errors.Join(err, started.Cluster.Stop())
	}
	return &controlPlane{ControlPlane: started, statuses: statuses}, nil
}

// ownControlPlane is a control plane for one test.
func ownControlPlane(t *testing.T, args ...string) *controlPlane {
	t.Helper()
	c, err := newControlPlane(t.Context())
	if err == nil {
		err = c.run(t.Context(), args...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if err := c.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// run starts the operator of the control plane.
func (c *controlPlane) run(ctx context.Context, args ...string) (err error) {
	c.operator, err = operator.Start(ctx, operator.Options{
		Cluster: c.Cluster, Networks: loopback + "/32", Log: os.Stderr,
		Args: append([]string{"--polling-fallback-interval=0", "--zap-log-level=debug"}, args...),
	})
	return err
}

// stop ends the control plane. It is an error if the operator does not end well, or has shown a secret.
func (c *controlPlane) stop(ctx context.Context) error {
	if c == nil {
		return nil
	}
	var errs []error
	if c.operator != nil {
		shown, err := c.evidence(ctx)
		errs = append(errs, err, c.operator.Stop(ctx))
		shown["log"] = c.operator.Logs()
		errs = append(errs, knownSecrets.search(shown))
	}
	return errors.Join(append(errs, c.Cluster.Stop())...)
}
