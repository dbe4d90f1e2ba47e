// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package scaledjob

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// BenchmarkDecode measures the decoding of a ScaledJob as the API server sends it, which each event of a watch takes.
func BenchmarkDecode(b *testing.B) {
	text, err := os.ReadFile("testdata/stored.json")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var decoded ScaledJob
		if err := json.Unmarshal(text, &decoded); err != nil || decoded.SpecErr != nil || decoded.StatusErr != nil {
			b.Fatal(fmt.Sprint(err, decoded.SpecErr, decoded.StatusErr))
		}
		if _, err := Slim(&decoded); err != nil {
			b.Fatal(err)
		}
	}
}
