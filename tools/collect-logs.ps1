#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Puts what an error report needs into one archive.
.DESCRIPTION
    Not yet run on Windows. The archive has names and addresses of this machine in it: look before you send it.
.PARAMETER Archive
    The archive to write; it must not exist.
.PARAMETER Trace
    A trace of the driver's events, of the ETW provider {5cdf31cf-3b81-5846-8cb0-47397bfbdd2b}, to put in too.
.EXAMPLE
    .\collect-logs.ps1 -Archive softndk-logs.zip
#>
[CmdletBinding()]
param(
    [string] $Archive = 'softndk-logs.zip',
    [string] $Trace
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

if (Test-Path $Archive) {
    throw "$Archive is there already."
}
if ($Trace -and -not (Test-Path $Trace)) {
    throw "$Trace is not there."
}
$folder = Join-Path ([System.IO.Path]::GetTempPath()) "softndk-logs-$PID"
New-Item -ItemType Directory -Path $folder | Out-Null
try {
    # Each is asked by itself: what it says, or why it cannot be had, is in the file of its name.
    $questions = [ordered]@{
        'system.txt'   = { Get-ComputerInfo -Property OsName, OsVersion, OsBuildNumber, CsNumberOfLogicalProcessors }
        'devices.txt'  = { Get-PnpDevice | Where-Object { $_.HardwareID -contains 'Root\SoftNdk' } | Format-List * }
        'drivers.txt'  = { pnputil.exe /enum-drivers /class Net }
        'adapters.txt' = { Get-NetAdapter -IncludeHidden | Format-List * }
        'rdma.txt'     = { Get-NetAdapterRdma | Format-List * }
        'doctor.txt'   = { .\ndkctl.exe doctor --save "$folder\doctor" }
        'verifier.txt' = { verifier.exe /query; verifier.exe /querysettings }
        'events.txt'   = {
            wevtutil.exe export-log System "$folder\system.evtx" '/query:*[System[TimeCreated[timediff(@SystemTime) <= 86400000]]]'
            "wevtutil ended with $LASTEXITCODE"
        }
        'set-up.txt'   = { Copy-Item "$env:SystemRoot\INF\setupapi.dev.log" $folder -PassThru }
        'dumps.txt'    = { if (Test-Path "$env:SystemRoot\Minidump") { Copy-Item "$env:SystemRoot\Minidump" $folder -Recurse -PassThru } }
        'trace.txt'    = { if ($Trace) { Copy-Item $Trace $folder -PassThru } }
    }
    foreach ($file in $questions.Keys) {
        # What cannot be had is a finding of its own, and the rest is still wanted.
        try {
            & $questions[$file] | Out-File (Join-Path $folder $file)
        } catch {
            "$_" | Out-File (Join-Path $folder $file)
        }
    }
    Compress-Archive -Path "$folder\*" -DestinationPath $Archive
} finally {
    Remove-Item $folder -Recurse
}
Write-Output "Written: $Archive"
# Not what the last program that was asked ended with.
exit 0
