// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// reviewsAtOnce is the number of permissions that are asked for at the same time.
const reviewsAtOnce = 16

// Asker answers whether the operator has a permission.
type Asker func(ctx context.Context, permission Permission) (bool, error)

// AskAPIServer returns an Asker that asks the API server. Every client that has signed in may ask about itself.
func AskAPIServer(client authorizationclient.SelfSubjectAccessReviewsGetter) Asker {
	return func(ctx context.Context, permission Permission) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &permission.ResourceAttributes},
		}
		answer, err := client.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("asking the API server for the permissions of the operator: %w", err)
		}
		return answer.Status.Allowed, nil
	}
}

// FirstMissing asks for permissions in their order until some are missing. It returns those, and all that have not been
// granted or asked for yet, which include them.
func FirstMissing(ctx context.Context, ask Asker, permissions []Permission) (missing, rest []Permission, err error) {
	for rest = permissions; len(rest) > 0; rest = rest[min(len(rest), reviewsAtOnce):] {
		missing, err = Missing(ctx, ask, rest[:min(len(rest), reviewsAtOnce)])
		if len(missing) > 0 || err != nil {
			return missing, rest, err
		}
	}
	return nil, nil, nil
}

// Missing asks for all of the permissions, and returns those that are missing.
func Missing(ctx context.Context, ask Asker, permissions []Permission) ([]Permission, error) {
	granted := make([]bool, len(permissions))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(reviewsAtOnce)
	for i, permission := range permissions {
		asking.Go(func() (err error) {
			granted[i], err = ask(ctx, permission)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	var missing []Permission
	for i, permission := range permissions {
		if !granted[i] {
			missing = append(missing, permission)
		}
	}
	return missing, nil
}
