// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"miracle.dev/scaledjob-operator/internal/redis/failure"
	"miracle.dev/scaledjob-operator/internal/redis/secrets"
	"miracle.dev/scaledjob-operator/test/kit/bubble"
	"miracle.dev/scaledjob-operator/test/kit/must"
)

// server is an API server as a client.Reader that only supports Get.
type server struct {
	client.Reader
	get func(ctx context.Context, key client.ObjectKey, secret *corev1.Secret) error
}

func (s server) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	return s.get(ctx, key, object.(*corev1.Secret))
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, kind := range []corev1.SecretType{corev1.SecretTypeOpaque, corev1.SecretTypeTLS, corev1.SecretTypeBasicAuth} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			reader := secrets.NewReader(server{get: func(_ context.Context, key client.ObjectKey, secret *corev1.Secret) error {
				g.Expect(key).To(Equal(client.ObjectKey{Namespace: "shop", Name: "redis"}))
				secret.Type = kind
				secret.Data = map[string][]byte{"password": []byte("pw"), "tls.crt": {0xff, 0}, "empty": {}}
				return nil
			}})
			data := must.Get(reader.Read(t.Context(), "shop", "redis"))(g)
			g.Expect(data).To(Equal(map[string][]byte{"password": []byte("pw"), "tls.crt": {0xff, 0}, "empty": {}}))
		})
	}
}

func TestReadTellsWhatIsKnownFromWhatIsNot(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "secrets"}
	for name, c := range map[string]struct {
		err    error
		reason failure.Reason // empty if the error is not classified
		words  string
	}{
		"gone": {
			apierrors.NewNotFound(resource, "redis"), failure.ReasonSecretNotFound,
			`There is no Secret "redis" in the namespace of the ScaledJob. Create it there, or correct spec.redis.`,
		},
		"forbidden": {
			apierrors.NewForbidden(resource, "redis", errors.New("no rule")), failure.ReasonSecretForbidden,
			`The operator may not read the Secret "redis". Allow its ServiceAccount to get Secrets in the namespace.`,
		},
		"internal error":  {err: apierrors.NewInternalError(errors.New("etcd is away"))},
		"not signed in":   {err: apierrors.NewUnauthorized("the token has expired")},
		"busy":            {err: apierrors.NewTooManyRequests("later", 1)},
		"no API server":   {err: errors.New("connection refused")},
		"slow API server": {err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			reader := secrets.NewReader(server{get: func(_ context.Context, _ client.ObjectKey, secret *corev1.Secret) error {
				secret.Data = map[string][]byte{"password": []byte("hunter2")}
				return c.err
			}})
			data, err := reader.Read(t.Context(), "shop", "redis")
			g.Expect(data).To(BeNil())
			g.Expect(err).To(MatchError(c.err))
			g.Expect(err).To(MatchError(ContainSubstring("reading Secret shop/redis")))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
			var classified *failure.Error
			g.Expect(errors.As(err, &classified)).To(Equal(c.reason != ""))
			if classified != nil {
				g.Expect(classified.Reason).To(Equal(c.reason))
				g.Expect(classified.Message).To(Equal(c.words))
			}
		})
	}
}

// serve starts what is taken for an API server, and returns a reader of its Secrets.
func serve(t *testing.T, handle http.HandlerFunc) *secrets.Reader {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	mapper := apimeta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), apimeta.RESTScopeNamespace)
	live := must.Get(client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme.Scheme, Mapper: mapper}))(NewWithT(t))
	return secrets.NewReader(live)
}

// TestAProxyDoesNotDecide checks that an error page of a proxy does not revoke the credentials in use.
func TestAProxyDoesNotDecide(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusNotFound, http.StatusForbidden} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>no such backend</html>", code) })
			_, err := proxy.Read(t.Context(), "shop", "redis")
			g.Expect(err).To(HaveOccurred())
			var classified *failure.Error
			g.Expect(errors.As(err, &classified)).To(BeFalse(), "%v", err)
		})
	}
}

// TestReadLogsNothing checks that client-go gets no logger, because it logs the bodies of responses at high verbosity.
func TestReadLogsNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	reader := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "Secret", "data": {"password": "cHc="}}`)
	})
	var logged []string
	everything := funcr.New(func(prefix, args string) { logged = append(logged, prefix+args) }, funcr.Options{Verbosity: 10})

	data := must.Get(reader.Read(logr.NewContext(t.Context(), everything), "shop", "redis"))(g)
	g.Expect(data).To(HaveKeyWithValue("password", []byte("pw")))
	g.Expect(logged).To(BeEmpty())
}

func TestReadEndsInTime(t *testing.T) {
	bubble.Run(t, func(t *testing.T, g Gomega) {
		reader := secrets.NewReader(server{get: func(ctx context.Context, _ client.ObjectKey, _ *corev1.Secret) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		began := time.Now()
		g.Expect(reader.Read(t.Context(), "shop", "redis")).Error().To(MatchError(context.DeadlineExceeded))
		g.Expect(time.Since(began)).To(BeNumerically("<=", 5*time.Second))
	})
}
