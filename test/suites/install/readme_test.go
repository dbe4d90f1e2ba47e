// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/test/kit/must"
	"miracle.dev/scaledjob-operator/test/suites/install/render"
)

// The README has each value with its default, and the schema knows each.
func TestReadmeHasAllValues(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	chart := must.Get(render.Chart())(g)
	var schema, values map[string]any
	g.Expect(yaml.Unmarshal(read(g, chart, "values.schema.json"), &schema)).To(Succeed())
	g.Expect(yaml.Unmarshal(read(g, chart, "values.yaml"), &values)).To(Succeed())
	defaults := map[string]any{}
	collect(g, defaults, "", values, schema)

	rows := regexp.MustCompile("(?m)^\\| `([\\w.]+)` \\| `(.+)` \\| .+ \\|$").FindAllStringSubmatch(string(read(g, chart, "README.md")), -1)
	documented := map[string]any{}
	for _, row := range rows {
		var value any
		g.Expect(json.Unmarshal([]byte(row[2]), &value)).To(Succeed(), row[0])
		documented[row[1]] = value
	}
	g.Expect(documented).To(Equal(defaults))
}

func read(g Gomega, folder, name string) []byte {
	return must.Get(os.ReadFile(filepath.Join(folder, name)))(g)
}

// collect adds the values of a group. A group is what the schema lists all properties of.
func collect(g Gomega, to map[string]any, path string, values, schema map[string]any) {
	properties := schema["properties"].(map[string]any)
	if path != "global." { // A chart gets the global values of all others.
		g.Expect(schema).To(HaveKeyWithValue("additionalProperties", false), path)
	}
	g.Expect(properties).To(HaveLen(len(values)), path)
	for key, value := range values {
		property, known := properties[key].(map[string]any)
		g.Expect(known).To(BeTrue(), path+key)
		if _, isGroup := property["properties"]; isGroup {
			collect(g, to, path+key+".", value.(map[string]any), property)
			continue
		}
		to[path+key] = value
	}
}
