// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The names of the files in the directory of -metrics-cert-dir, as in a Secret of type kubernetes.io/tls.
const (
	certificateFile = "tls.crt"
	privateKeyFile  = "tls.key"
)

// bindMetrics defines the flags of the metrics server.
func (o *options) bindMetrics(flags *flag.FlagSet) {
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "0",
		"The `address` on which /metrics is served, such as :8443. 0 disables it.")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve /metrics over HTTPS, only to clients whose RBAC rules permit get on this path. If false, serve it "+
			"over HTTP to all clients.")
	flags.StringVar(&o.metricsClientCA, "metrics-client-ca-file", "",
		"The `file` with CA certificates, in PEM. If set, serve /metrics only to clients with a certificate "+
			"that one of these CAs signed, instead of asking the API server about the client. It is read again when it "+
			"changes; if it is then empty, garbled or deleted, the previous CAs stay valid until a valid file is there "+
			"or the operator restarts.")
	flags.StringVar(&o.metricsCertDir, "metrics-cert-dir", "",
		"The `directory` with tls.crt and tls.key, the certificate and private key of the metrics server, in PEM. They "+
			"are read again when they change. (default a self-signed certificate)")
	flags.BoolVar(&o.metricsQueues, "metrics-queue-label", true,
		"Put the Redis key into the label queue of the metrics of ScaledJobs. If false, the label is empty, and the keys of a "+
			"ScaledJob are added up.")
}

// checkMetrics returns an error for flags that contradict each other.
func (o *options) checkMetrics() error {
	const conflict = "invalid value for flag %s: must be unset with -metrics-secure=false, because there are no " +
		"certificates without HTTPS"
	switch {
	case o.metricsSecure:
		return nil
	case o.metricsClientCA != "":
		return fmt.Errorf(conflict, "-metrics-client-ca-file")
	case o.metricsCertDir != "":
		return fmt.Errorf(conflict, "-metrics-cert-dir")
	}
	return nil
}

// authenticatesMetrics reports whether the API server is asked who may read the metrics.
func (o *options) authenticatesMetrics() bool {
	return o.metricsAddress != "0" && o.metricsSecure && o.metricsClientCA == ""
}

// metricsAccess is how the metrics are served, and to whom.
type metricsAccess struct {
	server metricsserver.Options
	// authorities have signed the certificates of clients; nil if clients need none.
	authorities *dynamiccertificates.DynamicFileCAContent
}

// newMetricsAccess reads the files that the flags name.
func newMetricsAccess(options options) (*metricsAccess, error) {
	access := &metricsAccess{server: metricsserver.Options{
		BindAddress: options.metricsAddress, SecureServing: options.metricsSecure,
	}}
	if dir := options.metricsCertDir; dir != "" {
		// The metrics server would use a self-signed certificate if there is none here.
		_, err := tls.LoadX509KeyPair(filepath.Join(dir, certificateFile), filepath.Join(dir, privateKeyFile))
		if err != nil {
			return nil, fmt.Errorf("invalid value for flag -metrics-cert-dir: %w", err)
		}
		access.server.CertDir, access.server.CertName, access.server.KeyName = dir, certificateFile, privateKeyFile
	}
	switch {
	case options.authenticatesMetrics():
		access.server.FilterProvider = filters.WithAuthenticationAndAuthorization
	case options.metricsClientCA != "":
		authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("metrics-client-ca", options.metricsClientCA)
		if err != nil {
			return nil, fmt.Errorf("invalid value for flag -metrics-client-ca-file: %w", err)
		}
		access.authorities = authorities
		access.server.TLSOpts = []func(*tls.Config){access.requireCertificates}
		access.server.FilterProvider = access.filter
	}
	return access, nil
}

// addTo has the manager follow the changes of the authorities.
func (a *metricsAccess) addTo(mgr ctrl.Manager) error {
	if a.authorities == nil {
		return nil
	}
	return mgr.Add(onEveryReplica(func(ctx context.Context) error {
		a.authorities.Run(ctx, 1)
		return nil
	}))
}

// requireCertificates has the server accept only clients with a certificate of the current authorities. Sessions are
// not resumed: a client may have been accepted by earlier authorities.
func (a *metricsAccess) requireCertificates(config *tls.Config) {
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = func(state tls.ConnectionState) error { return a.verify(&state) }
	config.SessionTicketsDisabled = true
}

// filter verifies the certificate again for each request: a connection may outlive the certificate or its authority.
func (a *metricsAccess) filter(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(_ logr.Logger, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
			if err := a.verify(request.TLS); err != nil {
				http.Error(response, "Unauthorized", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(response, request)
		}), nil
	}, nil
}

// verify verifies the certificate of a client.
func (a *metricsAccess) verify(state *tls.ConnectionState) error {
	if state == nil || len(state.PeerCertificates) == 0 {
		return errors.New("the client has no certificate")
	}
	options, known := a.authorities.VerifyOptions()
	if !known {
		return errors.New("there are no authorities")
	}
	options.Intermediates = x509.NewCertPool()
	for _, intermediate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}
