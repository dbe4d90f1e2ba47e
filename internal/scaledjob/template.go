// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"bytes"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"

	"miracle.dev/scaledjob-operator/internal/jobs"
)

const (
	// maxTemplate is the size up to which the cache keeps a template.
	maxTemplate = 16 << 10
	// bytesPerByte and bytesPerItem are what a template takes at most when it is decoded, for each byte and for each
	// object in it.
	bytesPerByte = 8
	bytesPerItem = 400
)

// decoding is held while a template is decoded that the cache does not keep, so that one at a time takes memory.
var decoding sync.Mutex

// Template is the template of the Jobs as JSON, which takes a fraction of the memory of the decoded one. It can't be
// changed.
type Template struct {
	// Hash is its hash.
	Hash string
	// Weight is how many bytes it takes at most when it is decoded.
	Weight int64

	text string
}

// pack returns the template with this JSON, or an error if it can't be decoded.
func pack(text []byte) (Template, error) {
	if len(text) > maxTemplate {
		decoding.Lock()
		defer decoding.Unlock()
	}
	decoded, err := decodeTemplate(text)
	if err != nil {
		return Template{}, err
	}
	return Template{
		Hash:   jobs.TemplateHash(decoded),
		Weight: int64(len(text))*bytesPerByte + int64(bytes.Count(text, []byte("{")))*bytesPerItem,
		text:   string(text),
	}, nil
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
func (t Template) Held() bool { return t.text != "" || t.Weight == 0 }

// Decode returns the template, of which the caller may change anything.
func (t Template) Decode() (*batchv1.JobTemplateSpec, error) { return decodeTemplate([]byte(t.text)) }

// slim returns the template for the cache.
func (t Template) slim() Template {
	if len(t.text) > maxTemplate {
		t.text = ""
	}
	return t
}
