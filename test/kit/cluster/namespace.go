// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// tokenLifetime is longer than any run takes: nobody gets a second token.
const tokenLifetime = 24 * time.Hour

// CreateNamespace makes a namespace whose name begins with prefix, and returns the name when Pods can be created there.
func (c *Cluster) CreateNamespace(ctx context.Context, prefix string) (string, error) {
	namespace := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	if err := c.client.Create(ctx, &namespace); err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	if !c.opts.ControllerManager {
		return namespace.Name, nil
	}
	err := poll(ctx, func(ctx context.Context) error {
		return c.hasDefaultServiceAccount(ctx, namespace.Name)
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the ServiceAccount of namespace %s: %w", namespace.Name, err)
	}
	return namespace.Name, nil
}

// ServiceAccountConfig returns a client configuration with a token of the
// ServiceAccount, valid for longer than any run takes. The client may do what RBAC grants it.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	account := corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	lifetime := int64(tokenLifetime.Seconds())
	request := authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	if err := c.client.SubResource("token").Create(ctx, &account, &request); err != nil {
		return nil, fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := c.Config()
	config.BearerToken = request.Status.Token
	return config, nil
}

// WriteServiceAccountKubeconfig writes the configuration of ServiceAccountConfig to a kubeconfig file.
func (c *Cluster) WriteServiceAccountKubeconfig(ctx context.Context, namespace, name, path string) error {
	config, err := c.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return err
	}
	return WriteKubeconfig(config, path)
}
