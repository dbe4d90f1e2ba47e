// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// CreateNamespace makes a namespace whose name begins with prefix, and returns
// the name when Pods can be created there.
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
// ServiceAccount, valid for an hour. The client may do what RBAC grants it.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	account := corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	var request authenticationv1.TokenRequest
	if err := c.client.SubResource("token").Create(ctx, &account, &request); err != nil {
		return nil, fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := c.Config()
	config.BearerToken = request.Status.Token
	return config, nil
}
