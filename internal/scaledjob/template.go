// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// maxTemplate is the size up to which the cache keeps a template.
	maxTemplate = 16 << 10
	// maxItems is the number of JSON objects up to which a template is decoded. The Jobs that anybody needs have far fewer.
	// Each may be two bytes of JSON, and hundreds when it is decoded.
	maxItems = 20_000
)

// decoding is held while a template is decoded that the cache does not keep, so that one at a time takes memory.
var decoding sync.Mutex

// Template is the template of the Jobs as JSON, which takes a fraction of the memory of the decoded one. It can't be
// changed.
type Template struct {
	// Hash is its hash.
	Hash string

	text string
}

// pack returns the template with this JSON, or an error if it can't be decoded.
func pack(text []byte) (Template, error) {
	if len(text) > maxTemplate {
		decoding.Lock()
		defer decoding.Unlock()
	}
	if objectsIn(text) > maxItems {
		return Template{}, fmt.Errorf("jobTemplate has more than %d objects in its lists and fields", maxItems)
	}
	decoded, err := decodeTemplate(text)
	if err != nil {
		return Template{}, err
	}
	return Template{Hash: jobs.TemplateHash(decoded), text: string(text)}, nil
}

// objectsIn returns the number of objects in valid JSON.
func objectsIn(text []byte) int {
	objects, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == '{' && !quoted:
			objects++
		}
	}
	return objects
}

func decodeTemplate(text []byte) (*batchv1.JobTemplateSpec, error) {
	decoded := &batchv1.JobTemplateSpec{}
	if _, err := unmarshal(text, decoded); err != nil {
		return nil, fmt.Errorf("jobTemplate: %w", err)
	}
	return decoded, nil
}

// Held reports whether the template is here. The cache does not keep large ones: they have to be read from the API
// server.
func (t Template) Held() bool { return t.text != "" || t.Hash == "" }

// Decode returns the template, of which the caller may change anything.
func (t Template) Decode() (*batchv1.JobTemplateSpec, error) { return decodeTemplate([]byte(t.text)) }

// slim returns the template for the cache.
func (t Template) slim() Template {
	if len(t.text) > maxTemplate {
		t.text = ""
	}
	return t
}
