#!/usr/bin/env bash
# Signs the image that make push has pushed, that of each platform, and SHA256SUMS, and attaches the SBOMs and the provenance
# to the image. KEY=cosign.key signs with a key of cosign, and needs only the registry. Without it, cosign asks for an
# identity, which a workflow has, and writes each signature into the public log of Sigstore.
set -euo pipefail
cd "$(dirname "$0")/../.."
cosign=(go tool -modfile=hack/tools/cosign/go.mod cosign)
image=$(sed -n 's/^ *image: \(.*\):[^:@]*@\(sha256:[0-9a-f]*\)$/\1@\2/p' dist/install.yaml)
if [ -z "$image" ]; then
	echo "dist/install.yaml names no image by digest. Run make push first." >&2
	exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

how=(--yes)
if [ -n "${KEY:-}" ]; then
	# A configuration without services: no log, and no authority for certificates.
	echo '{"mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json"}' > "$scratch/services.json"
	how+=(--key "$KEY" --signing-config "$scratch/services.json")
fi
cat > "$scratch/provenance.json" << JSON
{
  "buildDefinition": {
    "buildType": "https://miracle.dev/scaledjob-operator/docs/contributing/releasing.md",
    "externalParameters": {"command": "make push", "image": "${image%@*}"},
    "resolvedDependencies": [{"uri": "git+${GITHUB_SERVER_URL:-file://}/${GITHUB_REPOSITORY:-}", "digest": {"gitCommit": "$(git rev-parse HEAD)"}}]
  },
  "runDetails": {
    "builder": {"id": "${GITHUB_WORKFLOW_REF:-local}"},
    "metadata": {"invocationId": "${GITHUB_RUN_ID:-local}/${GITHUB_RUN_ATTEMPT:-1}"}
  }
}
JSON

"${cosign[@]}" sign --recursive "${how[@]}" "$image"
"${cosign[@]}" attest --type slsaprovenance1 --predicate "$scratch/provenance.json" "${how[@]}" "$image"
for list in dist/*.cdx.json; do
	"${cosign[@]}" attest --type cyclonedx --predicate "$list" "${how[@]}" "$image"
done
"${cosign[@]}" sign-blob --bundle dist/SHA256SUMS.sigstore.json "${how[@]}" dist/SHA256SUMS > /dev/null
echo "Signed, with provenance and SBOMs: $image"
