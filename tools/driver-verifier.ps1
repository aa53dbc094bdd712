#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Turns Driver Verifier on or off for softndk.sys and ndis.sys.
.DESCRIPTION
    Not yet run on Windows. ndis.sys is included because NDIS allocates for its miniports, which would go unchecked. Other settings
    of Driver Verifier are replaced.
.PARAMETER State
    On or Off.
.EXAMPLE
    .\driver-verifier.ps1 On
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory, Position = 0)]
    [ValidateSet('On', 'Off')]
    [string] $State
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

if ($State -eq 'On') {
    verifier.exe /standard /driver softndk.sys ndis.sys
} else {
    verifier.exe /reset
}
# 2: it takes a restart.
if ($LASTEXITCODE -notin 0, 2) {
    throw "verifier ended with $LASTEXITCODE"
}
Write-Output "Driver Verifier will be $($State.ToLowerInvariant()) after a restart. 'verifier /query' says what it checks now."
# Not what verifier ended with.
exit 0
