$ErrorActionPreference = 'Stop'
# Enumerations become numbers in JSON: a property of one is taken as text.
function Text([string] $Name) {
    @{ Name = $Name; Expression = [scriptblock]::Create('[string] $_.' + $Name) }
}
$questions = [ordered]@{
    'Win32_OperatingSystem' = {
        Get-CimInstance -ClassName Win32_OperatingSystem |
            Select-Object -Property Caption, BuildNumber, OperatingSystemSKU, ProductType
    }
    'Get-PnpDevice' = {
        Get-PnpDevice -PresentOnly | Where-Object { $_.HardwareID -contains 'Root\SoftNdk' } |
            Select-Object -Property InstanceId, Status, @{
                Name = 'ConfigManagerErrorCode'; Expression = { [int] $_.ConfigManagerErrorCode }
            }
    }
    'Get-NetAdapter' = {
        Get-NetAdapter | Select-Object -Property Name, InterfaceDescription, InterfaceIndex, NetLuid, (Text Status)
    }
    'Get-NetAdapterRdma' = { Get-NetAdapterRdma | Select-Object -Property Name, InterfaceDescription, Enabled }
    'Get-NetAdapterBinding' = {
        Get-NetAdapterBinding -ComponentID ms_server, ms_msclient | Select-Object -Property Name, ComponentID, Enabled
    }
    'Get-NetOffloadGlobalSetting' = {
        Get-NetOffloadGlobalSetting | Select-Object -Property (Text NetworkDirect), (Text NetworkDirectAcrossIPSubnets)
    }
    'Get-NetIPAddress' = {
        Get-NetIPAddress | Select-Object -Property InterfaceIndex, IPAddress, (Text AddressState)
    }
    'Get-NetRoute' = {
        Get-NetRoute | Select-Object -Property InterfaceIndex, DestinationPrefix, NextHop
    }
    'Get-NetConnectionProfile' = {
        Get-NetConnectionProfile | Select-Object -Property InterfaceIndex, (Text NetworkCategory)
    }
    'Get-NetFirewallProfile' = {
        Get-NetFirewallProfile -PolicyStore ActiveStore |
            Select-Object -Property Name, (Text Enabled), (Text DefaultInboundAction)
    }
    'Get-NetFirewallRule' = {
        $ports = @{}
        $programs = @{}
        $interfaces = @{}
        Get-NetFirewallPortFilter -PolicyStore ActiveStore | ForEach-Object { $ports[$_.InstanceID] = $_ }
        Get-NetFirewallApplicationFilter -PolicyStore ActiveStore | ForEach-Object { $programs[$_.InstanceID] = $_ }
        Get-NetFirewallInterfaceFilter -PolicyStore ActiveStore | ForEach-Object { $interfaces[$_.InstanceID] = $_ }
        Get-NetFirewallRule -PolicyStore ActiveStore -Direction Inbound -Enabled True |
            Where-Object {
                foreach ($filters in $ports, $programs, $interfaces) {
                    if (-not $filters.Contains($_.InstanceID)) { throw 'a rule lacks a filter' }
                }
                $ports[$_.InstanceID].Protocol -in $null, 'TCP', 'Any' -and
                    $programs[$_.InstanceID].AppPath -in $null, '', 'Any', 'System'
            } |
            Select-Object -Property Name, DisplayName, (Text Action), (Text Profile), @{
                Name = 'LocalPort'; Expression = { @($ports[$_.InstanceID].LocalPort) }
            }, @{
                Name = 'InterfaceAlias'; Expression = { @($interfaces[$_.InstanceID].InterfaceAlias) }
            }
    }
    'Get-WindowsOptionalFeature' = {
        Get-WindowsOptionalFeature -Online -FeatureName SMBDirect | Select-Object -Property FeatureName, (Text State)
    }
    'Get-SmbClientConfiguration' = {
        Get-SmbClientConfiguration | Select-Object -Property EnableMultiChannel, WindowSizeThreshold
    }
    'Get-SmbServerConfiguration' = {
        Get-SmbServerConfiguration | Select-Object -Property EnableMultiChannel
    }
    'Get-SmbClientNetworkInterface' = {
        Get-SmbClientNetworkInterface |
            Select-Object -Property InterfaceIndex, FriendlyName, RdmaCapable, RssCapable, LinkSpeed, IpAddresses
    }
    'Get-SmbServerNetworkInterface' = {
        Get-SmbServerNetworkInterface |
            Select-Object -Property InterfaceIndex, FriendlyName, RdmaCapable, RssCapable, LinkSpeed, IpAddress, ScopeName
    }
    'Get-SmbConnection' = { Get-SmbConnection | Select-Object -Property ServerName, Dialect }
    'Get-SmbMultichannelConnection' = {
        Get-SmbMultichannelConnection -IncludeNotSelected |
            Select-Object -Property ServerName, Selected, Failed, FailureCount, CurrentChannels,
                ClientInterfaceIndex, ClientInterfaceFriendlyName, ClientIpAddress, ClientRdmaCapable, ClientRSSCapable,
                ClientLinkSpeed, ServerInterfaceIndex, ServerIpAddress, ServerRdmaCapable, ServerRSSCapable, ServerLinkSpeed
    }
    'Get-SmbMultichannelConstraint' = {
        Get-SmbMultichannelConstraint | Select-Object -Property ServerName, InterfaceIndex
    }
}
$answers = [ordered]@{}
foreach ($name in $questions.Keys) {
    # A query that fails is an answer too, and the rest is still wanted.
    try {
        $answers[$name] = @(& $questions[$name])
    } catch {
        $answers[$name] = @{ error = [string] $_ }
    }
}
$json = ConvertTo-Json -InputObject $answers -Depth 4 -Compress
# In ASCII, as the code page of the output may be any; not by the formatter, which may break lines.
[Console]::Out.Write([regex]::Replace($json, '[^\x00-\x7f]', { param($match) '\u{0:x4}' -f [int] $match.Value[0] }))
