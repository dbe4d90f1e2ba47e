// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook runs admission webhooks that do not behave: they hang, refuse, lie or change objects. It also makes
// admission policies that refuse.
package webhook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// timeoutSeconds is the longest that an API server waits for a webhook.
const timeoutSeconds = 30

// Rule is what a webhook is asked about.
type Rule struct {
	Operation                registrationv1.OperationType
	Group, Version, Resource string
	// Labels are those that the object must have. None means any object.
	Labels map[string]string
}

// Labelled returns the rule for those objects that have these labels.
func (r Rule) Labelled(labels map[string]string) Rule {
	r.Labels = labels
	return r
}

// registered returns the rule as the API server takes it.
func (r Rule) registered() registrationv1.RuleWithOperations {
	return registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{r.Operation},
		Rule: registrationv1.Rule{
			APIGroups: []string{r.Group}, APIVersions: []string{r.Version}, Resources: []string{r.Resource},
		},
	}
}

// What the operator asks the API server to do.
var (
	CreateJob    = Rule{Operation: registrationv1.Create, Group: "batch", Version: "v1", Resource: "jobs"}
	DeleteJob    = Rule{Operation: registrationv1.Delete, Group: "batch", Version: "v1", Resource: "jobs"}
	CreateEvent  = Rule{Operation: registrationv1.Create, Group: "events.k8s.io", Version: "v1", Resource: "events"}
	UpdateStatus = Rule{
		Operation: registrationv1.Update, Resource: "scaledjobs/status",
		Group: scaledjobv1.GroupVersion.Group, Version: scaledjobv1.GroupVersion.Version,
	}
)

// Answer handles one review. It returns false for no answer: the request then waits until the API server gives up.
type Answer func(*admissionv1.AdmissionReview) (response any, answered bool)

// Hang answers nothing.
func Hang(*admissionv1.AdmissionReview) (any, bool) { return nil, false }

// Lie answers something that is no review.
func Lie(*admissionv1.AdmissionReview) (any, bool) {
	return map[string]any{"kind": "Lie", "response": true}, true
}

// Refuse returns an Answer that rejects all requests with this HTTP status code.
func Refuse(code int32) Answer { return Deny(code, "not here") }

// Deny returns an Answer that rejects all requests with this text and this HTTP status code, 0 for none.
func Deny(code int32, text string) Answer {
	return func(review *admissionv1.AdmissionReview) (any, bool) {
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Result: &metav1.Status{Code: code, Message: text},
		}
		review.Request = nil
		return review, true
	}
}

// httpError is the HTTP status code of an answer without a review.
type httpError int

// Fail returns an Answer that is no review, with this HTTP status code.
func Fail(code int) Answer {
	return func(*admissionv1.AdmissionReview) (any, bool) { return httpError(code), true }
}

// Change changes how a webhook is registered.
type Change = func(*registrationv1.ValidatingWebhook)

// Named gives the webhook this name.
func Named(name string) Change {
	return func(w *registrationv1.ValidatingWebhook) { w.Name = name }
}

// Within has the API server wait so many seconds for an answer.
func Within(seconds int32) Change {
	return func(w *registrationv1.ValidatingWebhook) { w.TimeoutSeconds = &seconds }
}

// At has the API server ask at this host and port.
func At(address string) Change {
	return func(w *registrationv1.ValidatingWebhook) { w.ClientConfig.URL = new("https://" + address) }
}

// Behind has the API server ask the Service of this name.
func Behind(namespace, name string) Change {
	return func(w *registrationv1.ValidatingWebhook) {
		w.ClientConfig.URL, w.ClientConfig.Service = nil, &registrationv1.ServiceReference{Namespace: namespace, Name: name}
	}
}

// Trusting has the API server believe only the authority with this certificate, in PEM.
func Trusting(authority []byte) Change {
	return func(w *registrationv1.ValidatingWebhook) { w.ClientConfig.CABundle = authority }
}

// Webhook is a registered webhook. Stop it.
type Webhook struct {
	answer        Answer
	api           client.Client
	configuration client.Object
	server        *httptest.Server
	stopped       chan struct{}

	mu     sync.Mutex
	counts Counts
}

// Counts are numbers of reviews: how many wait for an answer, the most that ever waited at the same time, and how many
// have ended.
type Counts struct{ Waiting, Most, Ended int }

// Start has the API server ask about what matches the rule in a namespace.
func Start(ctx context.Context, api client.Client, namespace string, of Rule, answer Answer, changes ...Change) (*Webhook, error) {
	w := &Webhook{answer: answer, api: api, stopped: make(chan struct{})}
	w.server = httptest.NewUnstartedServer(w)
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0) // An API server that does not trust it tries again and again.
	w.server.StartTLS()
	registered := w.registration(namespace, of)
	for _, change := range changes {
		change(&registered)
	}
	w.configuration = &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namespace + "-"}, Webhooks: []registrationv1.ValidatingWebhook{registered},
	}
	if err := api.Create(ctx, w.configuration); err != nil {
		w.end()
		return nil, fmt.Errorf("registering a webhook for namespace %s: %w", namespace, err)
	}
	return w, nil
}

// registration returns how the webhook is registered for what matches the rule in a namespace.
func (w *Webhook) registration(namespace string, of Rule) registrationv1.ValidatingWebhook {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	none, fail, seconds := registrationv1.SideEffectClassNone, registrationv1.Fail, int32(timeoutSeconds)
	return registrationv1.ValidatingWebhook{
		Name: "hostile.example.com", SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &seconds,
		AdmissionReviewVersions: []string{"v1"},
		ClientConfig:            registrationv1.WebhookClientConfig{URL: &w.server.URL, CABundle: authority},
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		ObjectSelector:          &metav1.LabelSelector{MatchLabels: of.Labels},
		Rules:                   []registrationv1.RuleWithOperations{of.registered()},
	}
}

// Stop removes the webhook. What waits ends.
func (w *Webhook) Stop(ctx context.Context) error {
	err := w.api.Delete(ctx, w.configuration)
	w.end()
	if err != nil {
		return fmt.Errorf("removing webhook %s: %w", w.configuration.GetName(), err)
	}
	return nil
}

func (w *Webhook) end() {
	close(w.stopped)
	w.server.Close()
}

// Counts returns the numbers of reviews until now.
func (w *Webhook) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// ServeHTTP answers one review.
func (w *Webhook) ServeHTTP(to http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		return
	}
	w.begun()
	defer w.ended()
	if response, answered := w.answer(&review); answered {
		if code, failed := response.(httpError); failed {
			http.Error(to, http.StatusText(int(code)), int(code))
			return
		}
		_ = json.NewEncoder(to).Encode(response)
		return
	}
	select {
	case <-w.stopped:
	case <-request.Context().Done():
	case <-time.After(timeoutSeconds * time.Second):
	}
}

func (w *Webhook) begun() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Waiting++
	w.counts.Most = max(w.counts.Most, w.counts.Waiting)
}

func (w *Webhook) ended() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Waiting--
	w.counts.Ended++
}
