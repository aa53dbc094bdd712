#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Turns Driver Verifier on or off for softndk.sys.
.DESCRIPTION
    Not yet run on Windows. Other settings of Driver Verifier are replaced. 'verifier /query' says what it checks at the time.
.PARAMETER State
    On: after a restart, each check that concerns a miniport. ndis.sys is checked too, because NDIS allocates for its miniports.
    Now: fewer checks, without a restart, until the next one. Windows 11 and Windows Server 2025 are documented to allow that
    while Driver Verifier is off; another project saw runners of GitHub refuse it.
    Off: after a restart.
.EXAMPLE
    .\driver-verifier.ps1 On
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory, Position = 0)]
    [ValidateSet('On', 'Now', 'Off')]
    [string] $State
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

# Rule classes: 1 special pool, 2 IRQL, 4 pool tracking, 5 I/O, 6 deadlocks, 8 DMA, 9 security, 12 miscellaneous, 18 and 20 DDI
# compliance, 22 NDIS, 34 WDF.
switch ($State) {
    'On' { verifier.exe /ruleclasses 1 2 4 5 6 8 9 12 18 20 22 34 /driver softndk.sys ndis.sys }
    'Now' {
        # Windows versions differ on whether 2 may begin without a restart.
        verifier.exe /dif 1 2 4 5 9 12 18 20 /now /driver softndk.sys
        if ($LASTEXITCODE -ne 0) {
            verifier.exe /dif 1 4 5 9 12 18 20 /now /driver softndk.sys
        }
    }
    'Off' { verifier.exe /reset }
}
# 2: it takes a restart.
$accepted = if ($State -eq 'Now') { 0 } else { 0, 2 }
if ($LASTEXITCODE -notin $accepted) {
    throw "verifier ended with $LASTEXITCODE"
}
$when = if ($State -eq 'Now') { 'on until the next restart' } else { "$($State.ToLowerInvariant()) after a restart" }
Write-Output "Driver Verifier: $when."
# Not what verifier ended with.
exit 0
